//! `windlass dev resolve`: a name resolved by the system's resolver, as programs in a pod do.

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use crate::exit::{Code, Failure, Outcome};

/// Arguments of `windlass dev resolve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  windlass dev resolve kubernetes.default.svc.cluster.local --for 60")]
pub(crate) struct Args {
    /// The name.
    name: String,
    /// Seconds until it gives up.
    #[arg(long = "for", default_value_t = 60, value_name = "SECONDS")]
    seconds: u64,
}

const PAUSE: Duration = Duration::from_millis(100);

/// Prints the first address.
pub(crate) fn run(args: &Args) -> Outcome {
    let end = Instant::now() + Duration::from_secs(args.seconds);
    loop {
        let error = match (args.name.as_str(), 0_u16).to_socket_addrs() {
            Ok(mut found) => match found.next() {
                Some(address) => {
                    println!("{}", address.ip());
                    return Ok(Code::Ok);
                }
                None => "no address".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        if Instant::now() > end {
            return Err(Failure::new(Code::Failed, anyhow::anyhow!("{}: {error}", args.name)));
        }
        std::thread::sleep(PAUSE);
    }
}
