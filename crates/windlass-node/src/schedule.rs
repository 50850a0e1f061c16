//! Parts in order, as much at once as the order allows.
//!
//! Inputs: tasks with the names of those that must be done before. Output: every task done once, its state on the board.
//! A failed task is tried again with growing pauses and holds back only those after it.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::sync::watch;
use windlass_spec::report::PartState;

use crate::board::Board;
use crate::error::{Changes, PartError};

/// Work of a part; called again after a failure.
pub type Work<'a> = Box<dyn Fn() -> BoxFuture<'a, Result<Changes, PartError>> + Send + Sync + 'a>;

/// One part.
pub struct Task<'a> {
    name: String,
    after: Vec<String>,
    work: Work<'a>,
}

impl<'a> Task<'a> {
    /// A part of that name.
    pub fn new<F>(name: impl Into<String>, work: impl Fn() -> F + Send + Sync + 'a) -> Self
    where
        F: Future<Output = Result<Changes, PartError>> + Send + 'a,
    {
        Self { name: name.into(), after: Vec::new(), work: Box::new(move || Box::pin(work())) }
    }

    /// Only after these are done. Names without a task count as done.
    #[must_use]
    pub fn after<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.after.extend(names.into_iter().map(Into::into));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Runs all tasks to their end.
pub async fn run(tasks: Vec<Task<'_>>, board: &Board) {
    let names: BTreeSet<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let done = watch::Sender::new(BTreeSet::new());
    join_all(tasks.into_iter().map(|task| run_one(task, &names, &done, board))).await;
}

async fn run_one(task: Task<'_>, names: &BTreeSet<String>, done: &watch::Sender<BTreeSet<String>>, board: &Board) {
    let before: Vec<&String> = task.after.iter().filter(|name| names.contains(*name)).collect();
    let ready = |done: &BTreeSet<String>| before.iter().all(|name| done.contains(*name));
    if done.subscribe().wait_for(ready).await.is_err() {
        return;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        if board.state(&task.name) == Some(PartState::Pending) {
            board.waiting(&task.name, "at work");
        }
        match (task.work)().await {
            Ok(changes) => {
                board.done(&task.name, changes);
                done.send_modify(|done| {
                    done.insert(task.name.clone());
                });
                return;
            }
            Err(error) => {
                tracing::warn!(part = task.name, "{error}");
                board.failed(&task.name, error.to_string(), error.log());
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn order_holds_and_failures_are_tried_again() {
        let board = Board::new("m", "b");
        let order = Mutex::new(Vec::new());
        let tries = AtomicU32::new(0);
        let note = |name: &'static str| {
            let order = &order;
            move || async move {
                order.lock().unwrap().push(name);
                Ok(vec![])
            }
        };
        let flaky = || async {
            match tries.fetch_add(1, Ordering::Relaxed) {
                0 => Err(PartError::Etcd("not yet".into())),
                _ => Ok(vec!["came up".to_owned()]),
            }
        };
        run(
            vec![
                Task::new("kubelet", note("kubelet")).after(["containerd", "flaky", "absent"]),
                Task::new("containerd", note("containerd")).after(["files"]),
                Task::new("files", note("files")),
                Task::new("flaky", flaky),
            ],
            &board,
        )
        .await;
        assert_eq!(*order.lock().unwrap(), ["files", "containerd", "kubelet"]);
        assert!(board.report().parts.iter().all(|part| part.state == PartState::Done));
        assert_eq!(tries.load(Ordering::Relaxed), 2);
    }
}
