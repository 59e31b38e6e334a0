//! A client that does not read its stream.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use latchmail_tests::{EventStream, Imap, Service, Setup, append_message, imap};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::access::stream_status;

const MESSAGES: usize = 200;
/// Maximum number of changes of all flags. The buffers of the connection must be full before.
const MAX_ROUNDS: usize = 120;

/// Opens a stream with a small receive buffer, and reads only the header of the response.
async fn open_without_reading(service: &Service, access: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(service.address()).await.unwrap();
    let request = format!(
        "GET /api/v1/mail/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {access}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut header = Vec::new();
    while !header.ends_with(b"\r\n\r\n") {
        header.push(stream.read_u8().await.unwrap());
    }
    assert!(header.starts_with(b"HTTP/1.1 200"));
    stream
}

async fn change_all_flags(client: &mut Imap, command: &str) {
    let changed = client.store("1:*", command).await.unwrap();
    changed.try_collect::<Vec<_>>().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_disconnected_and_delays_no_other() {
    let service = Setup::default()
        .with("http.idle_timeout = 2\nevents.streams_per_credential = 2")
        .with_mail()
        .start()
        .await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    for number in 0..MESSAGES {
        append_message(&mut client, "INBOX", &number.to_string()).await;
    }
    client.select("INBOX").await.unwrap();
    let mut fast = EventStream::open(&ada, "?types=message.flags").await;
    let mut slow = open_without_reading(&service, &ada.access).await;
    let mut rounds = 0;
    while stream_status(&service, &ada.access).await == 429 {
        assert!(rounds < MAX_ROUNDS, "the slow client was not disconnected");
        let sign = if rounds % 2 == 0 { '+' } else { '-' };
        change_all_flags(&mut client, &format!("{sign}FLAGS (\\Flagged)")).await;
        for _ in 0..MESSAGES {
            assert_eq!(fast.next().await.kind, "message.flags");
        }
        rounds += 1;
    }

    // The last cursor that the slow client has received is valid.
    let mut received = Vec::new();
    let rest = timeout(Duration::from_secs(20), slow.read_to_end(&mut received));
    // The service can reset the connection.
    drop(
        rest.await
            .expect("the service did not close the connection"),
    );
    let received = String::from_utf8(received).unwrap();
    let complete = &received[..received.rfind("\n\n").unwrap()];
    let cursor = complete.rsplit_once("id: ").unwrap().1;
    let cursor = cursor.lines().next().unwrap();
    let query = format!("?types=message.flags&since={cursor}");
    // The place of the last request for the status can still be taken.
    let again = ada.sign_in_again().await;
    let mut resumed = EventStream::open(&again, &query).await;
    assert_eq!(resumed.next().await.kind, "message.flags");
}
