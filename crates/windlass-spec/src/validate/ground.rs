//! What only the ground can tell: ranges that meet the host's own routes.

use ipnet::IpNet;

use super::network::overlap;
use crate::full::Facts;
use crate::problems::{Problem, Problems};
use crate::resolve::{DEFAULT_PODS, DEFAULT_SERVICES, MACHINE_POOL};
use crate::v1alpha1::Cluster;

/// Judges a spec against the ground it is to be created on. Routes into the machines' own pool are other clusters',
/// which may share pod and service ranges; a default route is none to keep clear of.
pub fn validate_ground(cluster: &Cluster, facts: &Facts) -> Problems {
    let network = &cluster.spec.network;
    let pool = MACHINE_POOL.parse::<IpNet>().ok();
    let foreign = |route: &&IpNet| route.prefix_len() > 0 && !pool.is_some_and(|pool| pool.contains(*route));
    let routes: Vec<&IpNet> = facts.host_routes.iter().filter(foreign).collect();
    let lists = [
        ("spec.network.pods", &network.pods, DEFAULT_PODS),
        ("spec.network.services", &network.services, DEFAULT_SERVICES),
    ];
    lists.into_iter().flat_map(|(list, texts, default)| of_list(list, texts, default, &routes)).collect()
}

fn of_list(list: &str, texts: &[String], default: &str, routes: &[&IpNet]) -> Vec<Problem> {
    let written = texts.iter().enumerate().map(|(index, text)| (format!("{list}[{index}]"), text.as_str()));
    let ranges: Vec<(String, &str)> =
        if texts.is_empty() { vec![(list.to_owned(), default)] } else { written.collect() };
    let meets = |(path, text): (String, &str)| {
        let net: IpNet = text.parse().ok()?;
        let route = routes.iter().find(|route| overlap(route, &net))?;
        let problem =
            Problem::error("host-route", path, format!("{net} overlaps {route}, which this computer has a route to"));
        Some(problem.hint("pods could not reach what is there: choose another range"))
    };
    ranges.into_iter().filter_map(meets).collect()
}
