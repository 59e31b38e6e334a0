//! The limit on open file descriptors of the process, and the number of client connections that
//! this limit allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of file descriptors that are reserved for databases, connections to the mail server,
/// compiled modules and the log.
const RESERVE: u64 = 256;

/// The limit that the process requests, unless the configured number of connections needs a higher
/// limit. The limit is not higher, because child processes inherit the limit. A mail daemon closes
/// all possible file descriptors when it starts, which would take minutes with a limit of 10^9.
const USUAL_LIMIT: u64 = 65_536;

/// Returns the number of file descriptors that the service needs for `max_connections` client
/// connections.
#[must_use]
pub fn required_descriptors(max_connections: usize) -> u64 {
    u64::try_from(max_connections)
        .unwrap_or(u64::MAX)
        .saturating_add(RESERVE)
}

/// Raises the limit on file descriptors. Returns the number of connections that the new limit
/// allows, which is at most `configured`.
pub(crate) fn max_connections(configured: usize) -> usize {
    let limit = raise(configured);
    let allowed = allowed_connections(configured, limit);
    if allowed < configured {
        tracing::warn!(
            configured,
            allowed,
            limit,
            "`http.max_connections` exceeds the limit on open files: raise the limit (`LimitNOFILE=`, `ulimit -n`)"
        );
    }
    allowed
}

/// Returns the maximum number of streams of events of a service with this configured number of
/// connections: three quarters of the connections that the limit on file descriptors allows. A
/// stream can use a connection for days. The other connections remain for short requests.
#[must_use]
pub fn max_streams(max_connections: usize) -> usize {
    streams(allowed_connections(max_connections, raise(max_connections)))
}

fn streams(connections: usize) -> usize {
    (connections - connections.div_ceil(4)).max(1)
}

/// Raises the limit on file descriptors, and returns the new limit. Returns `None` if there is no
/// limit.
fn raise(configured: usize) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let soft = current?;
    let wanted = required_descriptors(configured)
        .max(USUAL_LIMIT)
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

/// Returns the number of connections that a limit on file descriptors allows. The result is at
/// least one and at most `configured`.
fn allowed_connections(configured: usize, limit: Option<u64>) -> usize {
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
    fn file_descriptors_are_reserved_for_other_uses() {
        assert_eq!(allowed_connections(4096, Some(65_536)), 4096);
        assert_eq!(allowed_connections(4096, Some(4096 + RESERVE)), 4096);
        assert_eq!(allowed_connections(4096, Some(1024)), 768);
        assert_eq!(allowed_connections(4096, Some(100)), 1, "at least one");
        assert_eq!(allowed_connections(4096, None), 4096);
    }

    #[test]
    fn at_least_a_quarter_of_the_connections_remains_without_a_stream() {
        assert_eq!([8192, 8, 5, 1].map(streams), [6144, 6, 3, 1]);
    }

    #[test]
    fn the_limit_is_never_lowered() {
        let before = getrlimit(Resource::Nofile).current;
        let after = raise(1);
        assert!(after.is_none() || after >= before);
        assert_eq!(getrlimit(Resource::Nofile).current, after);
    }
}
