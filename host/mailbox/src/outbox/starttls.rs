//! Switches a connection to the submission service to TLS (STARTTLS, RFC 3207). lettre starts TLS
//! only on its own TCP connections. The service opens its connections itself, because lettre does
//! not set `TCP_NODELAY`.

use crate::connections::server_text;
use latchmail_net::endpoint::{Endpoint, Io};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Maximum size of a reply, in bytes.
const MAX_REPLY: usize = 16 * 1024;

const HELLO: &str = "EHLO [127.0.0.1]\r\n";
const STARTTLS: &str = "STARTTLS\r\n";

/// Connects, and starts TLS after the server has accepted STARTTLS. The client must send EHLO
/// again, because the replies before TLS are not authentic. The error is the reason of the failure.
pub(super) async fn connect(endpoint: &Endpoint) -> Result<Box<dyn Io>, String> {
    let mut stream = endpoint.connect_tcp().await.map_err(|e| e.to_string())?;
    expect(&mut stream, "220").await?;
    send(&mut stream, HELLO).await?;
    let offered = expect(&mut stream, "250").await?;
    if !offered.lines().any(is_starttls) {
        return Err("`smtp.starttls` is set, but the server does not offer STARTTLS".into());
    }
    send(&mut stream, STARTTLS).await?;
    expect(&mut stream, "220").await?;
    endpoint.encrypt(stream).await.map_err(|e| e.to_string())
}

async fn send(stream: &mut TcpStream, command: &str) -> Result<(), String> {
    let written = stream.write_all(command.as_bytes()).await;
    written.map_err(|e| e.to_string())
}

/// Reads one reply, which must have the code `code`.
///
/// The server must not have sent data after the reply. Otherwise an attacker on the network could
/// inject replies that the client would read after the start of TLS (CVE-2011-0411).
async fn expect(stream: &mut TcpStream, code: &str) -> Result<String, String> {
    let mut reply = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await.map_err(|e| e.to_string())?;
        let Some(chunk) = buffer.get(..read).filter(|chunk| !chunk.is_empty()) else {
            return Err("the server closed the connection".into());
        };
        reply.extend_from_slice(chunk);
        if reply.len() > MAX_REPLY {
            return Err("the reply of the server is too long".into());
        }
        let text = String::from_utf8_lossy(&reply);
        let Some(lines) = text.strip_suffix("\r\n") else {
            continue;
        };
        // A hyphen after the code marks a line that is not the last one (RFC 5321, section 4.2).
        let mut last = lines.split("\r\n").map(|line| line.get(3..4) != Some("-"));
        match last.position(|last| last) {
            None => {}
            Some(_) if last.next().is_some() => {
                return Err("the server sent data after its reply".into());
            }
            Some(_) if lines.starts_with(code) => return Ok(text.into_owned()),
            Some(_) => {
                return Err(format!(
                    "the server replied: {}",
                    server_text::sanitize(lines)
                ));
            }
        }
    }
}

/// Returns `true` if a line of the reply to EHLO offers STARTTLS.
fn is_starttls(line: &str) -> bool {
    line.get(4..)
        .is_some_and(|keyword| keyword.trim().eq_ignore_ascii_case("STARTTLS"))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Connects to a server that replies with `replies` in order. Returns the reason of the
    /// failure. A real server does not send these replies.
    async fn failure(replies: &'static [&'static str]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            for reply in replies {
                stream.write_all(reply.as_bytes()).await.unwrap();
                if stream.read(&mut buffer).await.unwrap_or(0) == 0 {
                    return;
                }
            }
        });
        let endpoint = Endpoint::new("smtp.address", &address, true).unwrap();
        match connect(&endpoint).await {
            Ok(_) => panic!("the connection succeeded"),
            Err(reason) => reason,
        }
    }

    #[tokio::test]
    async fn a_server_without_starttls_gets_no_password() {
        let reason = failure(&["220 a\r\n", "250-a\r\n250 PIPELINING\r\n"]).await;
        assert!(reason.contains("does not offer STARTTLS"), "{reason}");
        let reason = failure(&[
            "220 a\r\n",
            "250-a\r\n250 STARTTLS\r\n",
            "454 4.7.0 TLS\r\n",
        ])
        .await;
        assert!(reason.contains("454 4.7.0 TLS"), "{reason}");
    }

    #[tokio::test]
    async fn data_after_the_last_reply_without_tls_is_refused() {
        let reason = failure(&[
            "220 a\r\n",
            "250-a\r\n250 STARTTLS\r\n",
            "220 Ready\r\n250 injected\r\n",
        ])
        .await;
        assert!(reason.contains("sent data after its reply"), "{reason}");
    }
}
