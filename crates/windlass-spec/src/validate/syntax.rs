//! Forms of names.
//!
//! Input: text. Output: is it a name of that form?

/// Is it a DNS label: lower-case letters, digits and `-`, at most 63?
pub(super) fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Is it DNS labels with dots between, at most 253?
pub(super) fn is_dns_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// Is it a name of a label, annotation or taint: `[DNS.NAME/]NAME`?
pub(super) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

fn is_name_part(text: &str) -> bool {
    !text.is_empty() && is_label_value(text)
}

/// Is it a label's value: nothing, or at most 63 letters, digits, `-`, `_`, `.`, with letter or digit at both ends?
pub(super) fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 63 && text.bytes().all(inner) && edge(text.bytes().next()) && edge(text.bytes().last())
}

/// Is it a flag's name, without dashes before it?
pub(super) fn is_flag_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Is it a kernel parameter's name, with dots?
pub(super) fn is_sysctl(text: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    text.contains('.') && text.split('.').all(part)
}

/// Is it a login name?
pub(super) fn is_login(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    first && text.len() <= 32 && text.bytes().all(inner)
}

/// Is it a DNS name or an IP address?
pub(super) fn is_host(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok() || is_dns_name(&text.to_ascii_lowercase())
}

/// Is it `HOST` or `HOST:PORT`, an IPv6 address in brackets?
pub(super) fn is_host_and_port(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest.strip_prefix(':').or((rest.is_empty()).then_some("1"))),
        None => text.split_once(':').map_or((text, Some("1")), |(host, port)| (host, Some(port))),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|number| number > 0) && !port.starts_with('+');
    is_host(host) && port.is_some_and(is_port)
}

#[cfg(test)]
mod tests {
    use super::{is_dns_label, is_host_and_port, is_label_value, is_login, is_qualified_name, is_sysctl};

    fn each(is: impl Fn(&str) -> bool, right: &[&str], wrong: &[&str]) {
        right.iter().for_each(|text| assert!(is(text), "{text:?} is right"));
        wrong.iter().for_each(|text| assert!(!is(text), "{text:?} is wrong"));
    }

    #[test]
    fn forms() {
        let long = "a".repeat(63);
        let longer = "a".repeat(64);
        each(is_dns_label, &["lab", "a-1", "0", &long], &["", "Lab", "-a", "a-", "a.b", "a_b", "ä", &longer]);
        each(
            is_label_value,
            &["", "a", "A.b-c_d", "1", &long],
            &["-a", "a-", "a/b", "a b", "true:NoSchedule", &longer],
        );
        each(is_qualified_name, &["a", "example.com/a", &long], &["", "/a", "a/", "a/b/c", "Ex.com/a", &longer]);
        each(
            is_sysctl,
            &["vm.max_map_count", "net.ipv4.conf.eth0-1.rp_filter"],
            &["vm", "vm..a", "vm.a b", "../x.y", ""],
        );
        each(is_login, &["ops", "_svc", "a-1"], &["", "Ops", "1a", "a b", "root:x", &longer]);
        each(
            is_host_and_port,
            &["docker.io", "localhost:5000", "192.0.2.1:80", "[2001:db8::1]:443", "[2001:db8::1]"],
            &["", "https://x", "x/y", "x:0", "x:70000", "x:", ":80", "[2001:db8::1]x"],
        );
    }
}
