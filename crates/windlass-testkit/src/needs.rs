//! What a test needs of the computer it runs on.
//!
//! Output: is it there? Where it is not, the test is passed over, with a line that says so; in CI (`CI=true`) it fails
//! instead, so that nothing goes untested unseen.

/// Is the test run by root?
///
/// # Panics
/// In CI, when it is not.
#[must_use]
pub fn root() -> bool {
    let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    met(rustix::process::geteuid().is_root(), "root", is_ci)
}

fn met(is_there: bool, need: &str, is_ci: bool) -> bool {
    assert!(is_there || !is_ci, "this test needs {need}, and in CI nothing is passed over");
    if !is_there {
        eprintln!("PASSED OVER: this test needs {need}");
    }
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_passed_over_by_people() {
        assert!(met(true, "root", true) && met(true, "root", false) && !met(false, "root", false));
    }

    #[test]
    #[should_panic(expected = "in CI nothing is passed over")]
    fn what_is_missing_fails_in_ci() {
        met(false, "root", true);
    }
}
