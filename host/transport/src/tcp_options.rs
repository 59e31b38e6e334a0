//! The options of accepted TCP connections. They make the operating system report a client that
//! disappears without closing its connection, for example when it loses its network.

use std::io;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;

/// The time without data after which the operating system checks whether the client exists, and the
/// interval of further checks.
const CHECK_AFTER: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Sets the options. The connection ends if the client acknowledges neither data nor a check for
/// `timeout`.
pub(crate) fn set(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Linux has a signed number, and zero means the default of the operating system.
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    sockopt::set_tcp_user_timeout(stream, millis.max(1).unsigned_abs())?;
    sockopt::set_tcp_keepidle(stream, CHECK_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, CHECK_INTERVAL)?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    // A client on the same machine cannot disappear without closing its connection.
    #[tokio::test]
    async fn the_system_reports_a_client_that_disappears() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (_client, accepted) = tokio::join!(client, listener.accept());
        let (stream, _) = accepted.unwrap();
        set(&stream, Duration::from_mins(1)).unwrap();
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 60_000);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), CHECK_AFTER);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), CHECK_INTERVAL);
        assert!(stream.nodelay().unwrap());
    }
}
