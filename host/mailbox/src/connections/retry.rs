//! Repeats a read operation if the server has closed the pooled connection.

/// Runs a read operation on the session of a lease. If the server has closed a reused connection,
/// repeats the operation once on a new connection. Commands that change data must not use this
/// macro, because the server might execute the command twice.
macro_rules! retry_read {
    ($lease:ident, $session:ident => $read:expr) => {{
        let is_reused = $lease.is_reused();
        let $session = $lease.session().await?;
        match $read.await {
            Err(latchmail_imap::Error::Lost(why)) if is_reused => {
                tracing::debug!(why, "idle connection to the mail server was closed");
                let $session = $lease.session().await?;
                $read.await?
            }
            result => result?,
        }
    }};
}

pub(crate) use retry_read;
