//! Users and groups as `/etc/passwd` and `/etc/group` have them.
//!
//! Inputs: the two files below the machine's root. Outputs: numbers for names.

use std::io;

use super::{Root, files};

/// A login user of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User number.
    pub user: u32,
    /// Number of its first group.
    pub group: u32,
    /// Home directory.
    pub home: String,
}

/// The account of that name.
///
/// # Errors
/// When `/etc/passwd` cannot be read.
pub fn account(root: &Root, name: &str) -> io::Result<Option<Account>> {
    let text = files::read_text(&root.at("/etc/passwd"))?.unwrap_or_default();
    Ok(text.lines().find_map(|line| parse_account(line, name)))
}

fn parse_account(line: &str, name: &str) -> Option<Account> {
    let fields: Vec<&str> = line.split(':').collect();
    match fields.as_slice() {
        [found, _, user, group, _, home, ..] if *found == name => {
            Some(Account { user: user.parse().ok()?, group: group.parse().ok()?, home: (*home).to_owned() })
        }
        _ => None,
    }
}

fn group(root: &Root, name: &str) -> io::Result<Option<u32>> {
    let text = files::read_text(&root.at("/etc/group"))?.unwrap_or_default();
    Ok(text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    }))
}

/// The numbers of `user:group`, `user`, or of numbers themselves.
///
/// # Errors
/// When a name is unknown or a file cannot be read.
pub fn owner(root: &Root, text: &str) -> io::Result<files::Owner> {
    let (user_name, group_name) = text.split_once(':').unwrap_or((text, ""));
    let unknown = |kind: &str, name: &str| io::Error::new(io::ErrorKind::NotFound, format!("no {kind} {name:?}"));
    let found = account(root, user_name)?;
    let user = match (&found, user_name.parse()) {
        (Some(account), _) => account.user,
        (None, Ok(number)) => number,
        (None, Err(_)) if user_name == "root" => 0,
        (None, Err(_)) => return Err(unknown("user", user_name)),
    };
    let group = match (group_name, group(root, group_name)?, group_name.parse()) {
        ("", ..) => found.map_or(user, |account| account.group),
        (_, Some(number), _) | (_, None, Ok(number)) => number,
        ("root", ..) => 0,
        (name, ..) => return Err(unknown("group", name)),
    };
    Ok((user, group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        fs_err::create_dir_all(dir.path().join("etc")).unwrap();
        fs_err::write(dir.path().join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nops:x:1000:1001::/home/ops:/bin/sh\n")
            .unwrap();
        fs_err::write(dir.path().join("etc/group"), "root:x:0:\nadm:x:4:ops\n").unwrap();
        assert_eq!(owner(&root, "ops").unwrap(), (1000, 1001));
        assert_eq!(owner(&root, "ops:adm").unwrap(), (1000, 4));
        assert_eq!(owner(&root, "7:8").unwrap(), (7, 8));
        assert_eq!(owner(&root, "root:root").unwrap(), (0, 0));
        assert!(owner(&root, "nobody-here").is_err());
    }
}
