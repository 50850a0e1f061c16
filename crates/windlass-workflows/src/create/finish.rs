//! The last step: what the user finds in the cluster's folder.

use windlass_engine::failure::OrFail;
use windlass_engine::{Outcome, StepResult};

use super::Cx;

/// Specs move up, the rest of what was generated goes.
pub(super) async fn files(cx: Cx) -> StepResult {
    let folder = &cx.folder;
    folder.write_private(&folder.spec(), &cx.request.text).or_fail("failed to write the spec")?;
    folder.write_full(&folder.full(), cx.full()?).or_fail("failed to write the full spec")?;
    folder.write_private(&folder.kubeconfig(), &cx.target()?.kubeconfig).or_fail("failed to write the kubeconfig")?;
    folder.clear_generated().or_fail("failed to remove what was generated")?;
    Ok(Outcome::noted(folder.root().to_string()))
}
