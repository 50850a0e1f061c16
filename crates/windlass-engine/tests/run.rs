//! Proves the runner by breaking it: fail at every step, crash between any two, do everything twice, stop on request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use camino::Utf8PathBuf;
use jiff::Timestamp;
use proptest::prelude::*;
use windlass_engine::journal::{Header, Record, StepState};
use windlass_engine::{
    Cancel, Context, Engine, EventKind, Events, Failure, Faults, Journal, Outcome, Recorder, Retry, Step, StepResult,
    Stopped, Workflow,
};

/// A world of named things; steps make them, undo takes them away.
#[derive(Debug, Default)]
struct World {
    things: Mutex<BTreeSet<&'static str>>,
    made: Mutex<Vec<&'static str>>,
}

impl World {
    fn things(&self) -> Vec<&'static str> {
        self.things.lock().expect("world").iter().copied().collect()
    }

    fn made(&self) -> Vec<&'static str> {
        self.made.lock().expect("world").clone()
    }
}

async fn make(context: Context<World>, thing: &'static str) -> StepResult {
    tokio::task::yield_now().await;
    context.things.lock().expect("world").insert(thing);
    context.made.lock().expect("world").push(thing);
    Ok(Outcome::Done)
}

async fn remove(context: Context<World>, thing: &'static str) -> StepResult {
    context.things.lock().expect("world").remove(thing);
    Ok(Outcome::Done)
}

fn step(thing: &'static str) -> Step<World> {
    Step::new(thing, thing, move |context| make(context, thing)).undo(move |context| remove(context, thing))
}

const STEPS: [&str; 5] = ["network", "volume", "machine", "gitops", "cluster"];

/// `network` → (`volume`, `machine` side by side) → `gitops` (skipped) → `cluster`.
fn workflow() -> Workflow<World> {
    Workflow::new("create")
        .then(step("network"))
        .then(step("volume"))
        .then(step("machine").after(&["network"]))
        .then(step("gitops").skip_if(|_| Some("not configured".into())))
        .then(step("cluster").after(&["volume", "machine", "gitops"]))
}

struct Bench {
    dir: tempfile::TempDir,
    world: Arc<World>,
    recorder: Recorder,
    cancel: Cancel,
}

impl Bench {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("folder"),
            world: Arc::default(),
            recorder: Recorder::default(),
            cancel: Cancel::new(),
        }
    }

    fn folder(&self) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.dir.path().to_owned()).expect("utf-8")
    }

    fn engine(&self, faults: Faults) -> Engine {
        let header = Header {
            format: Header::FORMAT,
            operation: "create".into(),
            subject: "lab".into(),
            version: "0".into(),
            at: Timestamp::now(),
            facts: BTreeMap::new(),
            steps: STEPS.map(str::to_owned).into(),
        };
        let events = Events::new();
        events.add(self.recorder.clone());
        let journal = Journal::begin(&self.folder(), &header).expect("journal");
        Engine { events, journal, cancel: self.cancel.clone(), faults }
    }

    fn run(&self, workflow: &Workflow<World>, faults: Faults) -> Result<(), Stopped> {
        let engine = self.engine(faults);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(engine.run(workflow, Arc::clone(&self.world)))
    }

    fn record(&self) -> Record {
        Record::newest(&self.folder()).expect("read").expect("a journal")
    }
}

#[test]
fn everything_is_done_in_order_and_told() {
    let bench = Bench::new();
    bench.run(&workflow(), Faults::none()).expect("runs");
    assert_eq!(bench.world.things(), ["cluster", "machine", "network", "volume"]);
    assert_eq!(bench.world.made().first(), Some(&"network"));
    assert_eq!(bench.world.made().last(), Some(&"cluster"));
    let record = bench.record();
    assert!(record.succeeded());
    assert_eq!(record.steps["gitops"], StepState::Skipped);
    assert_eq!(record.steps["cluster"], StepState::Done);
}

#[test]
fn a_failure_at_any_step_leaves_a_clean_slate() {
    for name in STEPS.into_iter().filter(|name| *name != "gitops") {
        for faults in [Faults::none().fail_before(name), Faults::none().fail_after(name)] {
            for faults in [faults.clone(), faults.repeat_all()] {
                let bench = Bench::new();
                let stopped = bench.run(&workflow(), faults.clone()).expect_err("fails");
                assert!(matches!(stopped, Stopped::Step { step, .. } if step == name), "{faults:?}: {stopped}");
                assert_eq!(bench.world.things(), [""; 0], "{faults:?}");
                assert!(matches!(bench.record().ended, Some(Some(_))), "{faults:?}");
            }
        }
    }
}

#[test]
fn after_a_crash_the_journal_says_what_may_have_happened() {
    for name in STEPS.into_iter().filter(|name| *name != "gitops") {
        for faults in [Faults::none().crash_before(name), Faults::none().crash_after(name)] {
            let bench = Bench::new();
            let stopped = bench.run(&workflow(), faults).expect_err("crashes");
            assert!(matches!(stopped, Stopped::Crashed { step } if step == name));
            let record = bench.record();
            assert_eq!(record.ended, None);
            assert_eq!(record.steps[name], StepState::Unknown);
            // Whatever exists has at least an intent in the journal, so that it can be found again.
            assert!(bench.world.things().iter().all(|thing| record.steps.contains_key(*thing)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn a_rough_run_followed_by_the_same_command_ends_in_the_same_state(at in 0..STEPS.len(), after: bool, twice: bool) {
        let bench = Bench::new();
        let faults = if after { Faults::none().crash_after(STEPS[at]) } else { Faults::none().crash_before(STEPS[at]) };
        let _ = bench.run(&workflow(), faults);
        bench.run(&workflow(), if twice { Faults::none().repeat_all() } else { Faults::none() }).expect("runs");
        prop_assert_eq!(bench.world.things(), ["cluster", "machine", "network", "volume"]);
    }
}

#[test]
fn a_passing_failure_is_tried_again_and_a_lasting_one_is_not() {
    async fn flaky(context: Context<World>) -> StepResult {
        let mut made = context.made.lock().expect("world");
        made.push("try");
        if made.len() < 3 { Err(Failure::failed("not yet").passing()) } else { Err(Failure::failed("never")) }
    }
    let retry = Retry { attempts: 5, pause: Duration::from_millis(1) };
    let bench = Bench::new();
    let workflow = Workflow::new("create").then(Step::new("flaky", "Try", flaky).retry(retry));
    let stopped = bench.run(&workflow, Faults::none()).expect_err("fails for good");
    assert_eq!(stopped.failure().message, "never");
    assert_eq!(bench.world.made().len(), 3);
}

#[test]
fn one_request_stops_at_the_next_safe_point_and_undoes() {
    async fn wait(context: Context<World>) -> StepResult {
        context.cancel().ask();
        context.pause(Duration::from_secs(60)).await?;
        Ok(Outcome::Done)
    }
    let bench = Bench::new();
    let workflow =
        Workflow::new("create").then(step("network")).then(Step::new("wait", "Wait", wait)).then(step("machine"));
    let stopped = bench.run(&workflow, Faults::none()).expect_err("stopped");
    assert_eq!(stopped.failure(), Failure::interrupted());
    assert_eq!(bench.world.made(), ["network"]);
    assert_eq!(bench.world.things(), [""; 0]);
}

#[test]
fn a_step_without_safe_points_ends_before_one_request_counts_and_two_drop_it() {
    async fn deaf(context: Context<World>) -> StepResult {
        context.cancel().ask();
        tokio::time::sleep(Duration::from_millis(10)).await;
        make(context, "machine").await
    }
    async fn very_deaf(context: Context<World>) -> StepResult {
        context.cancel().ask();
        context.cancel().ask();
        tokio::time::sleep(Duration::from_secs(60)).await;
        make(context, "machine").await
    }
    let bench = Bench::new();
    let workflow = Workflow::new("create").then(Step::new("deaf", "Work", deaf)).then(step("cluster"));
    assert!(bench.run(&workflow, Faults::none()).is_err());
    assert_eq!(bench.world.made(), ["machine"]);

    let bench = Bench::new();
    let workflow = Workflow::new("create").then(Step::new("deaf", "Work", very_deaf)).then(step("cluster"));
    assert!(bench.run(&workflow, Faults::none()).is_err());
    assert_eq!(bench.world.made(), [""; 0]);
}

#[test]
fn a_step_after_one_that_is_not_before_it_is_a_mistake() {
    let workflow = Workflow::new("create").then(step("network").after(&["cluster"])).then(step("cluster"));
    assert!(workflow.order().is_err());
}

#[test]
fn events_tell_the_story_once() {
    let bench = Bench::new();
    bench.run(&workflow(), Faults::none().fail_before("cluster")).expect_err("fails");
    let story: Vec<String> = bench
        .recorder
        .events()
        .into_iter()
        .filter_map(|event| match event.event {
            EventKind::StepSkipped { step, reason } => Some(format!("skipped {step}: {reason}")),
            EventKind::StepFailed { step, failure, .. } => Some(format!("failed {step}: {failure}")),
            EventKind::StepUndone { step, .. } => Some(format!("undone {step}")),
            EventKind::OperationFinished { failure, .. } => Some(format!("over, failed: {}", failure.is_some())),
            _ => None,
        })
        .collect();
    insta::assert_snapshot!(story.join("\n"), @r"
    skipped gitops: not configured
    failed cluster: failed on purpose
    undone cluster
    undone machine
    undone volume
    undone network
    over, failed: true
    ");
}
