//! Repeats a read if a pooled connection turns out to be closed.

/// Runs a read on the session of a lease. If the connection was reused and the server has closed it, repeats the read once on a new connection. This macro must
/// not be used for commands that change data.
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
