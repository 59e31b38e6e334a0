//! The process's file descriptors: as many as the system grants, and some kept for what is not a client's connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for the databases, the mail server's connections, compiled modules and the log.
const RESERVE: u64 = 256;

/// No more is asked for than this and what the configured connections need: a child that closes all it could have inherited, as mail
/// daemons do, would take minutes for a limit of a thousand million.
const ENOUGH: u64 = 65_536;

/// Raises the process's own limit and answers how many of `configured` connections fit it.
pub(super) fn seats(configured: usize) -> usize {
    let limit = raise(configured);
    let seats = fitting(configured, limit);
    if seats < configured {
        tracing::warn!(
            configured,
            seats,
            limit,
            "`http.max_connections` is more than the limit on open files allows: raise it (`LimitNOFILE=`, `ulimit -n`)"
        );
    }
    seats
}

/// The limit as it then is; none where there is none.
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
            tracing::warn!(%error, soft, "the limit on open files cannot be raised");
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
