//! The numbers: kept, compared, printed, written.
//!
//! Input: seconds of each run of both sides. Output: medians with their spread, ratios against the goals, JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

/// Row, what it measures, the goal for Windlass ÷ kubeadm.
const ROWS: [(&str, &str, f64); 3] = [
    ("one_machine", "one machine", 0.7),
    ("management", "management cluster of one machine", 1.5),
    ("three_plus_two", "3 control planes + 2 workers", 0.4),
];

/// Everything that was measured.
#[derive(Debug, Default)]
pub(crate) struct Results {
    seconds: BTreeMap<&'static str, BTreeMap<&'static str, Vec<f64>>>,
    /// Memory in MB and CPU in percent of a core, by daemon.
    pub(crate) resident: BTreeMap<&'static str, Resident>,
    /// Size of the binary.
    pub(crate) binary_mb: f64,
}

/// What a daemon takes while nothing happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    pub(crate) rss_mb: f64,
    pub(crate) cpu_percent: f64,
}

impl Results {
    /// Keeps one run.
    pub(crate) fn add(&mut self, row: &'static str, side: &'static str, seconds: f64) {
        eprintln!("  {row}: {side} {seconds:.1} s");
        self.seconds.entry(row).or_default().entry(side).or_default().push(seconds);
    }

    fn runs(&self, row: &str, side: &str) -> &[f64] {
        self.seconds.get(row).and_then(|sides| sides.get(side)).map_or(&[], Vec::as_slice)
    }

    fn ratio(&self, row: &str) -> Option<f64> {
        Some(rounded(median(self.runs(row, "windlass"))? / median(self.runs(row, "kubeadm"))?))
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<36}{:>22}{:>22}{:>8}{:>8}\n", "", "Windlass, s", "kubeadm, s", "ratio", "goal");
        for (row, title, goal) in ROWS {
            let Some(ratio) = self.ratio(row) else { continue };
            let [ours, theirs] = ["windlass", "kubeadm"].map(|side| spread(self.runs(row, side)));
            let met = if ratio <= goal { "" } else { "  missed" };
            let _ = writeln!(text, "{title:<36}{ours:>22}{theirs:>22}{ratio:>8.2}{goal:>8.2}{met}");
        }
        for (name, found) in &self.resident {
            let _ = writeln!(text, "{name:<36}{:>15.1} MB RSS{:>14.2} % of a core", found.rss_mb, found.cpu_percent);
        }
        let _ = writeln!(text, "{:<36}{:>19.1} MB", "binary", self.binary_mb);
        text
    }

    /// For programs.
    pub(crate) fn document(&self) -> Value {
        let ratios: BTreeMap<&str, Option<f64>> = ROWS.iter().map(|(row, _, _)| (*row, self.ratio(row))).collect();
        let each = |read: fn(&Resident) -> f64| -> BTreeMap<&str, f64> {
            self.resident.iter().map(|(name, found)| (*name, rounded(read(found)))).collect()
        };
        json!({
            "ratios": ratios,
            "seconds": self.seconds,
            "rss_mb": each(|found| found.rss_mb),
            "cpu_idle_percent": each(|found| found.cpu_percent),
            "binary_mb": self.binary_mb,
        })
    }
}

/// Bytes as MB with one digit.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    (bytes as f64 / 1e5).round() / 10.0
}

fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

fn median(runs: &[f64]) -> Option<f64> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// `12.3 (11.9–14.0, 5 runs)`.
fn spread(runs: &[f64]) -> String {
    let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = runs.iter().copied().fold(0.0, f64::max);
    median(runs).map_or_else(String::new, |median| format!("{median:.1} ({least:.1}–{most:.1}, {})", runs.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios() {
        let mut results = Results::default();
        for seconds in [12.0, 10.0, 50.0] {
            results.add("one_machine", "windlass", seconds);
        }
        for seconds in [20.0, 28.0] {
            results.add("one_machine", "kubeadm", seconds);
        }
        assert_eq!(results.ratio("one_machine"), Some(0.5));
        assert_eq!(results.ratio("management"), None);
        assert_eq!(spread(&[12.0, 10.0, 50.0]), "12.0 (10.0–50.0, 3)");
    }
}
