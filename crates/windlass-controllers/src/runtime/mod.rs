//! What carries the controllers: queues with one run a key, watches, routes from changes to queues, server-side
//! writes, metrics, events and the leader's lease.

pub(crate) mod events;
pub(crate) mod lease;
pub(crate) mod metrics;
pub(crate) mod queue;
pub(crate) mod routes;
pub(crate) mod watches;
pub(crate) mod workers;
pub(crate) mod workload;
pub(crate) mod writer;
