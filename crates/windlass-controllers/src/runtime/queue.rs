//! A queue of keys: each at most once in line, never two runs of one key at a time, later wake-ups, and back-off
//! after failures.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// First wait after a failure; doubled with each further one.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Longest wait after failures.
const LAST_RETRY: Duration = Duration::from_secs(15);

/// The queue.
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    ready: VecDeque<K>,
    lined_up: HashSet<K>,
    running: HashSet<K>,
    again: HashSet<K>,
    later: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            lined_up: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            later: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord> Queue<K> {
    /// Wants a run soon.
    pub(crate) fn wake(&self, key: K) {
        self.lock().line_up(key);
        self.changed.notify_one();
    }

    /// Wants a run after this time, if none comes earlier.
    pub(crate) fn wake_after(&self, key: K, delay: Duration) {
        self.lock().postpone(key, Instant::now() + delay);
        self.changed.notify_one();
    }

    /// The next key to run; [`Queue::done`] must follow.
    pub(crate) async fn next(&self) -> K {
        loop {
            let wait = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.lined_up.remove(&key);
                    state.running.insert(key.clone());
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return key;
                }
                state.later.first().map(|(at, _)| *at)
            };
            match wait {
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Ends a run that went well.
    pub(crate) fn done(&self, key: &K) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.finish(key);
        drop(state);
        self.changed.notify_one();
    }

    /// Ends a run that failed; it is tried again, later each time. Returns how often it failed in a row.
    pub(crate) fn failed(&self, key: &K) -> u32 {
        let mut state = self.lock();
        let count = state.failures.entry(key.clone()).or_default();
        *count += 1;
        let count = *count;
        state.postpone(key.clone(), Instant::now() + retry_after(count));
        state.finish(key);
        drop(state);
        self.changed.notify_one();
        count
    }

    /// How many keys are in line.
    pub(crate) fn depth(&self) -> usize {
        self.lock().ready.len()
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash + Ord> State<K> {
    fn line_up(&mut self, key: K) {
        if let Some(at) = self.due.remove(&key) {
            self.later.remove(&(at, key.clone()));
        }
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.lined_up.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    fn postpone(&mut self, key: K, at: Instant) {
        if self.lined_up.contains(&key) {
            return;
        }
        if let Some(known) = self.due.get(&key).copied() {
            if known <= at {
                return;
            }
            self.later.remove(&(known, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.later.insert((at, key));
    }

    fn promote(&mut self, now: Instant) {
        while let Some((at, key)) = self.later.first().cloned()
            && at <= now
        {
            self.line_up(key);
        }
    }

    fn finish(&mut self, key: &K) {
        self.running.remove(key);
        if self.again.remove(key) {
            self.line_up(key.clone());
        }
    }
}

fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LAST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_runs_once_however_often_it_is_woken() {
        let queue = Queue::default();
        queue.wake("a");
        queue.wake("a");
        queue.wake("b");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test]
    async fn a_key_woken_while_it_runs_runs_again_afterwards() {
        let queue = Queue::default();
        queue.wake("a");
        assert_eq!(queue.next().await, "a");
        queue.wake("a");
        assert_eq!(queue.depth(), 0);
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test]
    async fn failures_wait_longer_each_time_and_a_wake_ends_the_wait() {
        let queue = Queue::default();
        queue.wake("a");
        for expected in [1, 2, 3] {
            assert_eq!(queue.next().await, "a");
            assert_eq!(queue.failed(&"a"), expected);
        }
        let before = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert!(before.elapsed() >= FIRST_RETRY * 4);
        queue.failed(&"a");
        queue.wake("a");
        let before = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert!(before.elapsed() < FIRST_RETRY);
        queue.done(&"a");
        assert_eq!(queue.depth(), 0);
    }

    #[test]
    fn the_wait_has_an_end() {
        assert_eq!(retry_after(1), FIRST_RETRY);
        assert_eq!(retry_after(40), LAST_RETRY);
    }
}
