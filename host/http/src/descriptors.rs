//! The limit on file descriptors, and the number of client connections that fits into it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors that are reserved for databases, connections to the mail server, compiled modules and the log.
const RESERVE: u64 = 256;

/// The highest limit that the process requests, unless the configured connections need more. A child process that closes all possible file descriptors, as mail
/// daemons do, would take minutes with a limit of 10^9.
const ENOUGH: u64 = 65_536;

/// Raises the process's limit on file descriptors. Returns how many of `configured` connections fit into the limit.
pub(crate) fn seats(configured: usize) -> usize {
    let limit = raise(configured);
    let seats = fitting(configured, limit);
    if seats < configured {
        tracing::warn!(
            configured,
            seats,
            limit,
            "`http.max_connections` exceeds the limit on open files: raise the limit (`LimitNOFILE=`, `ulimit -n`)"
        );
    }
    seats
}

/// Raises the limit and returns the new one, or `None` if there is no limit.
fn raise(configured: usize) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let soft = current?;
    let wanted = u64::try_from(configured)
        .unwrap_or(u64::MAX)
        .saturating_add(RESERVE)
        .max(ENOUGH)
        .min(maximum.unwrap_or(u64::MAX));
    if wanted <= soft {
        return Some(soft);
    }
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => Some(wanted),
        Err(error) => {
            tracing::warn!(%error, soft, "cannot raise the limit on open files");
            Some(soft)
        }
    }
}

fn fitting(configured: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else {
        return configured;
    };
    usize::try_from(limit.saturating_sub(RESERVE))
        .unwrap_or(usize::MAX)
        .clamp(1, configured.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        assert_eq!(fitting(4096, Some(65_536)), 4096);
        assert_eq!(fitting(4096, Some(4096 + RESERVE)), 4096);
        assert_eq!(fitting(4096, Some(1024)), 768);
        assert_eq!(fitting(4096, Some(100)), 1, "it still serves");
        assert_eq!(fitting(4096, None), 4096);
    }

    #[test]
    fn the_limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current;
        let after = raise(1);
        assert!(after.is_none() || after >= before);
        assert_eq!(getrlimit(Resource::Nofile).current, after);
    }
}
