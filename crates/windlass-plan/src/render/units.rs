//! systemd units of containerd and kubelet.

use windlass_spec::node_config::Unit;
use windlass_spec::paths;

use super::files::PROXY_ENVIRONMENT;
use super::flags::{arguments, merged};
use super::kubelet;
use crate::inputs::NodeInputs;

const CONTAINERD: &str = "containerd.service";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Both units, containerd first.
pub(super) fn units(inputs: &NodeInputs<'_>) -> Vec<Unit> {
    let proxy = inputs.full.proxy.is_some().then(|| PROXY_ENVIRONMENT.to_owned());
    vec![
        Unit {
            name: CONTAINERD.to_owned(),
            content: containerd(inputs, proxy.as_deref()),
            restart_on: [paths::CONTAINERD_CONFIGURATION.to_owned()].into_iter().chain(proxy.clone()).collect(),
        },
        Unit {
            name: kubelet::UNIT.to_owned(),
            content: kubelet(inputs, proxy.as_deref()),
            restart_on: [paths::KUBELET_CONFIGURATION.to_owned()].into_iter().chain(proxy).collect(),
        },
    ]
}

fn containerd(inputs: &NodeInputs<'_>, proxy: Option<&str>) -> String {
    let flags = merged(Default::default(), &inputs.full.components.containerd);
    let start = command_line("/usr/local/bin/containerd", &arguments(&flags));
    let limits = limits(inputs);
    let environment = environment(proxy);
    format!(
        "[Unit]\nDescription=containerd container runtime\nAfter=network.target local-fs.target\n\n\
         [Service]\nType=notify\n{environment}ExecStart={start}\nDelegate=yes\nKillMode=process\n\
         Restart=always\nRestartSec=1\n{limits}"
    )
}

fn kubelet(inputs: &NodeInputs<'_>, proxy: Option<&str>) -> String {
    let start = command_line("/usr/local/bin/kubelet", &arguments(&kubelet::kubelet_flags(inputs)));
    let environment = environment(proxy);
    format!(
        "[Unit]\nDescription=Kubernetes node agent\nAfter={CONTAINERD}\nWants={CONTAINERD}\nStartLimitIntervalSec=0\n\n\
         [Service]\n{environment}ExecStart={start}\nKillMode=process\nRestart=always\nRestartSec=1\n"
    )
}

/// Limits may only be raised where the machine holds the right to.
fn limits(inputs: &NodeInputs<'_>) -> &'static str {
    if inputs.full.facts.oom_score_adjustable {
        "LimitNOFILE=1048576\nLimitNPROC=infinity\nLimitCORE=infinity\nTasksMax=infinity\nOOMScoreAdjust=-999\n"
    } else {
        "TasksMax=infinity\n"
    }
}

fn environment(proxy: Option<&str>) -> String {
    let file = proxy.map(|path| format!("EnvironmentFile={path}\n")).unwrap_or_default();
    format!("Environment=PATH={PATH}\n{file}")
}

/// A command as systemd splits it, one argument a line.
fn command_line(program: &str, arguments: &[String]) -> String {
    let words = arguments.iter().map(|argument| word(argument));
    std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" \\\n  ")
}

/// One argument that systemd takes as it is: no specifier, variable or separator in it has a meaning.
fn word(argument: &str) -> String {
    let escaped = argument.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    let is_plain = escaped.chars().all(|each| each.is_ascii_graphic() && !matches!(each, '"' | '\'' | '\\' | ';'));
    if is_plain && !escaped.is_empty() { escaped } else { format!("\"{}\"", escaped.replace('\n', "\\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b04_nothing_in_an_argument_is_expanded() {
        let arguments = ["--a=pa$$w0rd$HOME", "--b=100%i", "--c=two words", "--d='x'", "--e=\"q\\"].map(str::to_owned);
        insta::assert_snapshot!(command_line("/bin/x", &arguments), @r#"
        /bin/x \
          --a=pa$$$$w0rd$$HOME \
          --b=100%%i \
          "--c=two words" \
          "--d='x'" \
          "--e=\"q\\"
        "#);
    }
}
