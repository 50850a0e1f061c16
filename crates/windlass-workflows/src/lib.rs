//! What Windlass does to whole clusters, as readable lists of steps: create, delete, pivot.
//!
//! Inputs: a spec or a name, a machine provider, a bundle's programs. Outputs: a cluster (or nothing, as before), the
//! cluster's folder, events, a journal.
//!
//! | module | job |
//! |---|---|
//! | [`create`], [`delete`] | the two lists and their steps |
//! | [`seat`], [`plane`], [`controllers`] | management held by this process: an API on loopback, controllers on it |
//! | [`pivot`] | moves management from one API to another, one side acting at most |
//! | [`machines`] | what machines do and wait for, and when they will not come up |
//! | [`management`], [`newer`] | what a management API holds beside a cluster's own objects, and who may touch it |
//! | [`content`] | bundle and machine image, had or built |
//! | [`folder`], [`site`] | the cluster's folder, this computer, and how commands find both |
//! | [`status`], [`kubeconfig`] | what a cluster is right now, and access to it |
//! | [`access`], [`apply`] | clients, and writes that can be repeated |

pub mod access;
pub mod apply;
pub mod content;
pub mod controllers;
pub mod create;
pub mod delete;
pub mod folder;
pub mod kubeconfig;
pub mod machines;
pub mod management;
pub mod newer;
pub mod pivot;
pub mod plane;
pub mod seat;
pub mod site;
pub mod status;
