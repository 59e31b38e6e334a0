//! Compares the limits of the system with the number of connections that the configuration allows.

use std::fs;

use latchmail_core::config::Config;
use latchmail_core::network::is_on_this_machine;
use latchmail_transport::required_descriptors;
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;

const INOTIFY: &str = "inotify";
const DESCRIPTORS: &str = "descriptors";

const MAX_INSTANCES: &str = "/proc/sys/fs/inotify/max_user_instances";

/// Dovecot's default limit on IMAP processes (`service imap { process_limit }`). Dovecot has one
/// process for each IMAP connection.
const MAX_IMAP_PROCESSES: u64 = 1024;

/// The name of the limit on open files in `/proc/PID/limits`.
const NAME_OF_DESCRIPTORS: &str = "Max open files";

/// Compares the number of inotify instances with the number of IMAP connections. All IMAP processes
/// of Dovecot belong to one user, and each process can use an instance.
pub(super) fn check_inotify(config: &Config, accounts: u64) -> Finding {
    if !is_on_this_machine(&config.imap.address) {
        return Finding::ok(INOTIFY, "the IMAP server is on another machine");
    }
    let limit = fs::read_to_string(MAX_INSTANCES)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    assess_inotify(limit, max_imap_connections(config, accounts))
}

fn assess_inotify(limit: Option<u64>, connections: u64) -> Finding {
    let remedy = format!(
        "set `fs.inotify.max_user_instances = {MAX_IMAP_PROCESSES}` in a file in /etc/sysctl.d, and run `sysctl --system`"
    );
    let Some(limit) = limit else {
        return Finding::warning(INOTIFY, format!("cannot read {MAX_INSTANCES}"), remedy);
    };
    let detail = format!(
        "instances per user: {limit}, IMAP connections of the service: at most {connections}"
    );
    if limit < connections {
        Finding::warning(INOTIFY, detail, remedy)
    } else {
        Finding::ok(INOTIFY, detail)
    }
}

/// Compares the limit on open files with the connections of clients and the connections to the IMAP
/// server. `pid` is the process of the running service.
pub(super) fn check_descriptors(config: &Config, accounts: u64, pid: Option<i32>) -> Finding {
    let of_service = pid.and_then(|pid| {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        hard_limit(&limits)
    });
    let required = required_descriptors(config.http.max_connections)
        .saturating_add(max_imap_connections(config, accounts));
    if let Some(limit) = of_service {
        return assess_descriptors("the running service", limit, required);
    }
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assess_descriptors("this command", limit, required)
}

fn assess_descriptors(process: &str, limit: u64, required: u64) -> Finding {
    let shown = match limit {
        u64::MAX => "unlimited".to_owned(),
        limit => limit.to_string(),
    };
    let detail = format!("open files of {process}: {shown}, required: {required}");
    if limit < required {
        Finding::warning(
            DESCRIPTORS,
            detail,
            format!(
                "set `LimitNOFILE={required}` or more in the unit of the service, or lower `http.max_connections`"
            ),
        )
    } else {
        Finding::ok(DESCRIPTORS, detail)
    }
}

/// Returns the hard limit on open files in the text of `/proc/PID/limits`. The service raises its
/// soft limit to the hard limit if necessary.
fn hard_limit(limits: &str) -> Option<u64> {
    let values = limits
        .lines()
        .find_map(|line| line.strip_prefix(NAME_OF_DESCRIPTORS))?;
    match values.split_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        limit => limit.parse().ok(),
    }
}

/// Returns the largest number of IMAP connections that the service opens at a time.
fn max_imap_connections(config: &Config, accounts: u64) -> u64 {
    let per_account = u64::try_from(config.imap.connections_per_account).unwrap_or(u64::MAX);
    per_account
        .saturating_mul(accounts.max(1))
        .min(MAX_IMAP_PROCESSES)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::*;

    #[test]
    fn a_limit_below_the_number_of_connections_is_a_warning() {
        assert_eq!(assess_inotify(Some(128), 128).status, Status::Ok);
        assert_eq!(assess_inotify(Some(128), 129).status, Status::Warning);
        assert_eq!(assess_inotify(None, 8).status, Status::Warning);
        assert_eq!(assess_descriptors("x", 1024, 1024).status, Status::Ok);
        assert_eq!(assess_descriptors("x", 1024, 1025).status, Status::Warning);
    }

    #[test]
    fn the_hard_limit_is_the_second_value() {
        let limits =
            "Limit      Soft Limit  Hard Limit  Units\nMax open files  1024  524288  files\n";
        assert_eq!(hard_limit(limits), Some(524_288));
        let unlimited = limits.replace("524288", "unlimited");
        assert_eq!(hard_limit(&unlimited), Some(u64::MAX));
        assert_eq!(hard_limit("Max processes 1 2 processes"), None);
    }
}
