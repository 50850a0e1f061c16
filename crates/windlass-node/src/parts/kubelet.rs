//! kubelet: started when it can succeed at once.
//!
//! Inputs: its unit, the bootstrap token. Output: the unit runs. Where its client certificate comes by TLS bootstrap, it is
//! fetched first, once the token is taken: a kubelet refused once waits for seconds before it asks again.

use std::time::Duration;

use hyper::Method;
use windlass_spec::node_config::Authority;

use super::{Context, tls_bootstrap, unit_part, units};
use crate::balancer::pool::Health;
use crate::error::{Changes, PartError};
use crate::http::{self, Kept};

/// Between two tries of a token that is not known yet: it tells nobody when it is.
const PAUSE: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_secs(3);

/// Starts kubelet.
///
/// # Errors
/// When its unit does not start.
pub async fn apply(cx: &Context) -> Result<Changes, PartError> {
    let kubelet = &cx.config().kubelet;
    let unit = cx.config().units.iter().find(|unit| unit.name == kubelet.unit).ok_or_else(|| PartError::Config {
        what: "kubelet".to_owned(),
        problem: format!("there is no unit {}", kubelet.unit),
    })?;
    let mut changes = Changes::new();
    if kubelet.tls_bootstrap && !tls_bootstrap::is_done(cx) {
        let part = unit_part(&unit.name);
        until_token_works(cx, &part).await?;
        changes.extend(tls_bootstrap::run(cx, &part).await?);
    }
    changes.extend(units::apply(cx, unit).await?);
    Ok(changes)
}

async fn until_token_works(cx: &Context, part: &str) -> Result<(), PartError> {
    let missing = |problem: &str| PartError::Config { what: "TLS bootstrap".to_owned(), problem: problem.to_owned() };
    let token = cx.secrets().bootstrap_token.clone().ok_or_else(|| missing("there is no bootstrap token"))?;
    let authority =
        cx.secrets().authorities.get(&Authority::Cluster).ok_or_else(|| missing("there is no authority"))?;
    let tls = http::tls(authority, None).map_err(|error| missing(&error.to_string()))?;
    let mut api = Kept::new(&cx.config().balancer.listen, tls, TIMEOUT);
    cx.board.waiting(part, "an API server to answer");
    loop {
        cx.api_servers.until(Health::Unready).await;
        match api.send(Method::GET, "/api", Some(&token), Vec::new(), TIMEOUT).await {
            Ok(answer) if answer.status.is_success() => return Ok(()),
            Ok(answer) if answer.status.as_u16() == 401 => {
                cx.board.waiting(part, "the control plane to take this machine's join token");
            }
            Ok(answer) => cx.board.waiting(part, format!("the API: it answers {}", answer.status)),
            Err(_) => cx.board.waiting(part, "an API server to answer"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
