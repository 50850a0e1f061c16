//! Waiting with a limit, for what is proven from outside.
//!
//! Input: a question that is asked again and again. Output: its answer, or the last reason why not.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks until the answer is `Ok`, for at most `seconds`; the error is the last one, with what was waited for.
///
/// # Errors
/// When time is up.
pub fn until<T>(what: &str, seconds: u64, question: impl Fn() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        match question() {
            Ok(answer) => return Ok(answer),
            Err(error) if started.elapsed() > Duration::from_secs(seconds) => {
                bail!("{what}: not within {seconds} s; at last: {error:#}")
            }
            Err(_) => std::thread::sleep(Duration::from_millis(250)),
        }
    }
}

/// How long something took.
pub fn timed<T>(act: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let started = Instant::now();
    let answer = act()?;
    Ok((answer, started.elapsed()))
}
