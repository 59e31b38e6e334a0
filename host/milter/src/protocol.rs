//! The milter protocol, version 6: frames, commands and replies.
//!
//! This module does not interpret messages. The only specification of the protocol is libmilter's
//! `mfdef.h`. Postfix implements the protocol in `milter8.c`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The protocol version of this program. No earlier version supports [`ACTIONS`] and [`STEPS`].
const VERSION: u32 = 6;

/// Maximum length of a frame in bytes. Postfix sends at most 64 KiB of a body in one frame. A
/// header field has at most `header_size_limit` bytes (100 KiB).
const MAX_FRAME_LENGTH: usize = 1024 * 1024;

/// Actions of the milter: add header fields (0x01) and change header fields (0x10).
const ACTIONS: u32 = 0x01 | 0x10;

/// Options of the protocol. The mail server does not send unknown commands (0x100) and DATA
/// (0x200). The milter does not reply to header fields (0x80), connection (0x1000), HELO (0x2000),
/// sender (0x4000), recipients (0x8000), end of header (0x40000) and body (0x80000). Header values
/// include their leading space (0x100000).
const STEPS: u32 =
    0x80 | 0x100 | 0x200 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x4_0000 | 0x8_0000 | 0x10_0000;

/// A command of the mail server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The protocol version, actions and steps that the mail server supports.
    Negotiate([u32; 3]),
    /// The names and values of macros. The macros belong to the command that follows.
    Macros(Vec<(String, String)>),
    /// The client that is connected to the mail server.
    Connect(Client),
    Hello(String),
    /// The envelope sender without angle brackets. Empty for the null sender.
    Sender(String),
    /// An envelope recipient without angle brackets.
    Recipient(String),
    /// A header field. Lines of a folded value are separated by LF.
    Field {
        name: Vec<u8>,
        value: Vec<u8>,
    },
    EndOfHeader,
    Body(Vec<u8>),
    EndOfMessage,
    /// The mail server cancelled the message before the end of the message.
    Abort,
    /// The commands of another client follow on the same connection.
    NewClient,
    Quit,
    /// Another command, which has no effect but needs a reply.
    Other,
}

/// The client that is connected to the mail server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Client {
    /// The IP address. `None` if the client uses a UNIX socket.
    pub(crate) ip: Option<IpAddr>,
    /// `true` if the message does not come from an SMTP client: a program of this machine or
    /// Postfix itself created the message. Postfix reports 127.0.0.1 and the port 0 for such a
    /// message (`cleanup_milter.c`), and no SMTP client has the port 0.
    pub(crate) is_internal: bool,
}

/// Reads one command. Returns `None` if the mail server closed the connection.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Command>> {
    let length = match stream.read_u32().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if !(1..=MAX_FRAME_LENGTH).contains(&length) {
        return Err(malformed("the length of a frame is out of range"));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).await?;
    let data = frame.split_off(1);
    parse(frame[0], data).map(Some)
}

fn parse(code: u8, data: Vec<u8>) -> io::Result<Command> {
    Ok(match code {
        b'O' => Command::Negotiate(numbers(&data)?),
        b'D' => {
            let mut texts = strings(data.get(1..).unwrap_or_default());
            let pairs = std::iter::from_fn(|| Some((texts.next()?, texts.next()?)));
            let bare = |(name, value): (String, String)| {
                let name = name.trim_matches(['{', '}']).to_owned();
                (name, value)
            };
            Command::Macros(pairs.map(bare).collect())
        }
        b'C' => Command::Connect(client(&data)),
        b'H' => Command::Hello(strings(&data).next().unwrap_or_default()),
        b'M' => Command::Sender(address(&data)),
        b'R' => Command::Recipient(address(&data)),
        b'L' => {
            let mut parts = data.splitn(2, |byte| *byte == 0);
            let mut part = || parts.next().map(<[u8]>::to_vec);
            let (Some(name), Some(mut value)) = (part(), part()) else {
                return Err(malformed("a header field has no value"));
            };
            value.pop_if(|byte| *byte == 0);
            Command::Field { name, value }
        }
        b'N' => Command::EndOfHeader,
        b'B' => Command::Body(data),
        b'E' => Command::EndOfMessage,
        b'A' => Command::Abort,
        b'K' => Command::NewClient,
        b'Q' => Command::Quit,
        _ => Command::Other,
    })
}

/// Returns the address of an envelope, without angle brackets. Parameters follow the address.
fn address(data: &[u8]) -> String {
    let address = strings(data).next().unwrap_or_default();
    let bare = address.trim_start_matches('<').trim_end_matches('>');
    bare.to_owned()
}

/// Parses the description of a client. `data` contains the client's name, a zero byte, the address
/// family, the port, the address and a zero byte.
fn client(data: &[u8]) -> Client {
    let after_name = data.iter().position(|byte| *byte == 0).map(|end| end + 1);
    let rest = after_name.and_then(|start| data.get(start..));
    let Some(([family, port @ ..], address)) = rest.and_then(<[u8]>::split_first_chunk::<3>) else {
        return Client::default();
    };
    let ip = client_address(*family, address);
    Client {
        ip,
        is_internal: *port == [0, 0] && ip == Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}

fn client_address(family: u8, address: &[u8]) -> Option<IpAddr> {
    let address = strings(address).next()?;
    match family {
        b'4' => address.parse().ok(),
        // Sendmail writes the prefix `IPv6:`.
        b'6' => {
            let address: Ipv6Addr = address.trim_start_matches("IPv6:").parse().ok()?;
            Some(IpAddr::V6(address).to_canonical())
        }
        _ => None,
    }
}

/// Returns the strings of a list in which each string ends with a zero byte.
fn strings(data: &[u8]) -> impl Iterator<Item = String> {
    let data = data.strip_suffix(&[0]).unwrap_or(data);
    data.split(|byte| *byte == 0)
        .map(|text| String::from_utf8_lossy(text).into_owned())
}

fn numbers(data: &[u8]) -> io::Result<[u32; 3]> {
    let mut numbers = data.chunks_exact(4).map(|four| {
        let four = four.try_into().unwrap_or_default();
        u32::from_be_bytes(four)
    });
    let mut next = || numbers.next();
    match [next(), next(), next()] {
        [Some(version), Some(actions), Some(steps)] => Ok([version, actions, steps]),
        _ => Err(malformed("the negotiation is too short")),
    }
}

fn malformed(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The replies to one command.
#[derive(Debug, Default)]
pub(crate) struct Replies(Vec<u8>);

impl Replies {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Replies with the version, actions and steps that the milter needs.
    ///
    /// # Errors
    /// Returns an error if the mail server does not support this protocol version or one of the
    /// actions and steps.
    pub(crate) fn negotiate(&mut self, [version, actions, steps]: [u32; 3]) -> io::Result<()> {
        if version < VERSION || actions & ACTIONS != ACTIONS || steps & STEPS != STEPS {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the mail server does not support version 6 of the milter protocol",
            ));
        }
        let numbers = [VERSION, ACTIONS, STEPS].map(u32::to_be_bytes);
        self.frame(b'O', &[&numbers.concat()]);
        Ok(())
    }

    pub(crate) fn proceed(&mut self) {
        self.frame(b'c', &[]);
    }

    pub(crate) fn accept(&mut self) {
        self.frame(b'a', &[]);
    }

    /// Accepts the message and discards it.
    pub(crate) fn discard(&mut self) {
        self.frame(b'd', &[]);
    }

    /// Rejects the message. The mail server sends `reply` to its client, for example `550 5.7.1 …`.
    pub(crate) fn reject(&mut self, reply: &str) {
        self.frame(b'y', &[reply.as_bytes(), &[0]]);
    }

    /// Deletes a header field. `index` counts the fields with this name, from 1.
    pub(crate) fn delete(&mut self, index: u32, name: &str) {
        self.frame(b'm', &[&index.to_be_bytes(), name.as_bytes(), &[0, 0]]);
    }

    /// Inserts a header field before all other fields. `value` begins with a space.
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        let parts: [&[u8]; 5] = [&[0; 4], name.as_bytes(), &[0], value.as_bytes(), &[0]];
        self.frame(b'i', &parts);
    }

    fn frame(&mut self, code: u8, parts: &[&[u8]]) {
        let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.0.extend(length.to_be_bytes());
        self.0.push(code);
        for part in parts {
            self.0.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(mut bytes: &[u8]) -> Vec<io::Result<Command>> {
        let mut all = Vec::new();
        while let Some(one) = read(&mut bytes).await.transpose() {
            let failed = one.is_err();
            all.push(one);
            if failed {
                break;
            }
        }
        all
    }

    fn framed(code: u8, data: &[u8]) -> Vec<u8> {
        let mut replies = Replies::default();
        replies.frame(code, &[data]);
        replies.0
    }

    #[tokio::test]
    async fn all_commands_are_parsed() {
        let session = [
            framed(b'C', b"client.example\x004\x00\x19192.0.2.1\x00"),
            framed(
                b'C',
                b"client.example\x006\x00\x19IPv6:::ffff:192.0.2.2\x00",
            ),
            framed(b'C', b"unknown\x00U"),
            framed(b'C', b"localhost\x004\x00\x00127.0.0.1\x00"),
            framed(b'C', b"localhost\x004\xcb\x0c127.0.0.1\x00"),
            framed(b'D', b"M{auth_authen}\x00ada@first.test\x00i\x001\x00"),
            framed(b'M', b"<ada@first.test>\x00SIZE=5\x00"),
            framed(b'M', b"<>\x00"),
            framed(b'R', b"<shop@first.test>\x00NOTIFY=NEVER\x00"),
            framed(b'L', b"Subject\x00 a\n\tb\x00"),
            framed(b'B', b"text\x00"),
            framed(b'T', b""),
        ]
        .concat();
        let read: Vec<Command> = read_all(&session)
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let client = |ip: [u8; 4], is_internal| {
            let ip = Some(ip.into());
            Command::Connect(Client { ip, is_internal })
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read,
            [
                client([192, 0, 2, 1], false),
                client([192, 0, 2, 2], false),
                Command::Connect(Client::default()),
                client([127, 0, 0, 1], true),
                client([127, 0, 0, 1], false),
                Command::Macros(vec![pair("auth_authen", "ada@first.test"), pair("i", "1")]),
                Command::Sender("ada@first.test".into()),
                Command::Sender(String::new()),
                Command::Recipient("shop@first.test".into()),
                Command::Field {
                    name: b"Subject".to_vec(),
                    value: b" a\n\tb".to_vec()
                },
                Command::Body(b"text\0".to_vec()),
                Command::Other,
            ]
        );
    }

    #[tokio::test]
    async fn malformed_frames_end_the_connection() {
        for bytes in [
            &[0, 0, 0, 0][..],
            &[0xff, 0xff, 0xff, 0xff],
            &[0, 0, 0, 9, b'B'],
            &framed(b'L', b"Subject"),
            &framed(b'O', &[0, 0, 0, 6]),
        ] {
            let read = read_all(bytes).await;
            assert!(matches!(read[..], [Err(_)]), "{bytes:?}: {read:?}");
        }
    }

    #[test]
    fn a_mail_server_without_a_needed_flag_is_rejected() {
        let mut replies = Replies::default();
        replies.negotiate([6, 0x1ff, 0x1f_ffff]).unwrap();
        for offered in [
            [2, 0x1ff, 0x1f_ffff],
            [6, 0x01, 0x1f_ffff],
            [6, 0x1ff, 0x7f],
        ] {
            replies.negotiate(offered).unwrap_err();
        }
    }
}
