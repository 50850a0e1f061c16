//! Scripts of the user that run once in the machine's life, before everything else.
//!
//! Inputs: scripts of the configuration, the ledger. Output: each run once; a failed one is reported and tried again.

use std::time::Duration;

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::command::Command;
use crate::host::files;
use crate::paths;

const TIME: Duration = Duration::from_secs(300);

/// Runs what has not run yet, in order.
///
/// # Errors
/// When a script cannot be run or fails.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    for script in &cx.config().first_boot {
        if cx.ledger.get().first_boot.contains(&script.name) {
            continue;
        }
        let path = cx.host.root.at(paths::STATE_DIR).join("first-boot").join(&script.name);
        files::ensure(&path, script.script.as_bytes(), 0o700, None).map_err(PartError::file(&path))?;
        let command = Command::new(&path.display().to_string(), Vec::<String>::new()).timeout(TIME);
        let ended = cx.host.commands.run(command).await?;
        if !ended.is_success() {
            let cause = format!("the script ended with {:?}", ended.code);
            return Err(PartError::Hook { name: script.name.clone(), cause }.with_log(ended.last_lines(20)));
        }
        cx.ledger.update(|ledger| {
            ledger.first_boot.insert(script.name.clone());
        })?;
        changes.push(format!("ran {}", script.name));
    }
    Ok(changes)
}
