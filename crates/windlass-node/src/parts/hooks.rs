//! The user's commands at fixed points.
//!
//! Inputs: commands, the ledger. Output: each run once for its content, killed after its time; what a failure does is
//! the hook's choice.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use windlass_spec::node_config::{Hook, HookPoint, OnFailure};

use super::Context;
use crate::error::{Changes, PartError};
use crate::host::command::{Command, CommandError};

/// Runs the hooks of one point that have not run, in order.
///
/// # Errors
/// When a hook that stops the machine fails.
pub async fn apply(cx: &Context, point: HookPoint) -> Result<Changes, PartError> {
    let mut changes = Changes::new();
    for hook in cx.config().hooks.iter().filter(|hook| hook.when == point) {
        let hash = hash(hook);
        if cx.ledger.get().hooks.get(&hook.name) == Some(&hash) {
            continue;
        }
        match (run(cx, hook).await, hook.on_failure) {
            (Ok(()), _) => changes.push(format!("{} ran", hook.name)),
            (Err(error), OnFailure::Continue) => changes.push(format!("{error}; going on")),
            (Err(error), OnFailure::Stop) => return Err(error),
        }
        cx.ledger.update(|ledger| {
            ledger.hooks.insert(hook.name.clone(), hash);
        })?;
    }
    Ok(changes)
}

async fn run(cx: &Context, hook: &Hook) -> Result<(), PartError> {
    let failed = |cause: String| PartError::Hook { name: format!("hook {}", hook.name), cause };
    let Some((program, args)) = hook.command.split_first() else {
        return Err(failed("it has no command".to_owned()));
    };
    let command = Command::new(program, args.to_vec()).timeout(Duration::from_secs(hook.timeout_seconds));
    match cx.host.commands.succeed(command).await {
        Ok(_) => Ok(()),
        Err(CommandError::Failed { code, lines, .. }) => {
            let ending = code.map_or_else(|| "a signal".to_owned(), |code| format!("exit code {code}"));
            Err(failed(format!("ended with {ending}")).with_log(lines))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

fn hash(hook: &Hook) -> String {
    // JSON keeps the words of the command apart.
    let text = serde_json::json!([hook.when, hook.command]).to_string();
    hex::encode(Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::command::Ended;
    use crate::parts::fixture;

    fn hook(name: &str, command: &[&str], on_failure: OnFailure) -> Hook {
        Hook {
            name: name.into(),
            when: HookPoint::BeforeKubelet,
            command: command.iter().map(|&word| word.into()).collect(),
            timeout_seconds: 5,
            on_failure,
        }
    }

    #[tokio::test]
    async fn once_for_each_content() {
        let mut machine = fixture::machine();
        machine.change(|config| config.hooks = vec![hook("tune", &["tune", "1"], OnFailure::Stop)]);
        assert_eq!(apply(&machine.context(), HookPoint::BeforeKubelet).await.unwrap(), ["tune ran"]);
        assert!(apply(&machine.context(), HookPoint::BeforeKubelet).await.unwrap().is_empty());
        assert!(apply(&machine.context(), HookPoint::AfterReady).await.unwrap().is_empty());
        machine.change(|config| config.hooks = vec![hook("tune", &["tune", "2"], OnFailure::Stop)]);
        assert_eq!(apply(&machine.context(), HookPoint::BeforeKubelet).await.unwrap().len(), 1);
        assert_eq!(machine.commands.ran(), ["tune 1", "tune 2"]);
    }

    #[tokio::test]
    async fn a_failure_stops_or_is_told() {
        let mut machine = fixture::machine();
        let ended = Ended { code: Some(1), stderr: "no".into(), ..Ended::default() };
        machine.commands.answer("bad", ended);
        machine.change(|config| config.hooks = vec![hook("h", &["bad"], OnFailure::Stop)]);
        let error = apply(&machine.context(), HookPoint::BeforeKubelet).await.unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.log()),
            ("hook h: ended with exit code 1", vec!["no".to_owned()])
        );
        machine.change(|config| config.hooks = vec![hook("h", &["bad"], OnFailure::Continue)]);
        let changes = apply(&machine.context(), HookPoint::BeforeKubelet).await.unwrap();
        assert_eq!(changes, ["hook h: ended with exit code 1; going on"]);
    }
}
