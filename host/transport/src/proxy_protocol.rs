//! Reads the header of the PROXY protocol, versions 1 and 2. Reads no byte that follows the header.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;

use ppp::{v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The length of the signature of version 2, in bytes. A header of version 1 is longer than the
/// signature.
const SIGNATURE: usize = 12;
/// The length of the fixed part of a header of version 2, in bytes. The last two bytes of this part
/// are the length of the rest.
const FIXED: usize = 16;
/// The maximum length of a header of version 2, in bytes. A header with the addresses and the names
/// of Unix sockets has 232 bytes. The rest is for additional fields, which are ignored.
const MAX_V2: usize = 2048;
/// The maximum length of a header of version 1, in bytes.
const MAX_V1: usize = 107;

/// Returns the address of the client, or `None` if the proxy itself opened the connection (for
/// example, a health check) or does not know the address.
///
/// # Errors
/// Returns an error if the header is invalid, incomplete or too long.
pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<IpAddr>> {
    let mut header = vec![0; SIGNATURE];
    stream.read_exact(&mut header).await?;
    if header == v2::PROTOCOL_PREFIX {
        read_v2(stream, header).await
    } else {
        read_v1(stream, header).await
    }
}

async fn read_v1(
    stream: &mut (impl AsyncRead + Unpin),
    mut header: Vec<u8>,
) -> io::Result<Option<IpAddr>> {
    if !header.starts_with(v1::PROTOCOL_PREFIX.as_bytes()) {
        return Err(invalid("the connection does not start with a header"));
    }
    while !header.ends_with(b"\r\n") {
        if header.len() == MAX_V1 {
            return Err(invalid("the header is too long"));
        }
        header.push(stream.read_u8().await?);
    }
    let header = v1::Header::try_from(&*header).map_err(invalid)?;
    Ok(match header.addresses {
        v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        v1::Addresses::Unknown => None,
    })
}

async fn read_v2(
    stream: &mut (impl AsyncRead + Unpin),
    mut header: Vec<u8>,
) -> io::Result<Option<IpAddr>> {
    header.resize(FIXED, 0);
    stream.read_exact(&mut header[SIGNATURE..]).await?;
    let length = usize::from(u16::from_be_bytes([header[FIXED - 2], header[FIXED - 1]]));
    if length > MAX_V2 {
        return Err(invalid("the header is too long"));
    }
    header.resize(FIXED + length, 0);
    stream.read_exact(&mut header[FIXED..]).await?;
    let header = v2::Header::try_from(&*header).map_err(invalid)?;
    if header.command == v2::Command::Local {
        return Ok(None);
    }
    match (header.protocol, header.addresses) {
        (v2::Protocol::Stream, v2::Addresses::IPv4(addresses)) => {
            Ok(Some(addresses.source_address.into()))
        }
        (v2::Protocol::Stream, v2::Addresses::IPv6(addresses)) => {
            Ok(Some(addresses.source_address.into()))
        }
        (v2::Protocol::Datagram, _) => Err(invalid("the connection is not a stream")),
        // A Unix socket has no IP address. For other types of addresses, the specification requires
        // the address of the connection.
        _ => Ok(None),
    }
}

fn invalid(reason: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the address in a header, and the bytes that follow the header.
    async fn parse(bytes: &[u8]) -> io::Result<(Option<String>, Vec<u8>)> {
        let mut rest = bytes;
        let address = read(&mut rest).await?;
        Ok((address.map(|address| address.to_string()), rest.to_vec()))
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [
            v2::PROTOCOL_PREFIX,
            &[0x20 | command, family],
            &length,
            body,
        ]
        .concat()
    }

    #[tokio::test]
    async fn the_client_address_is_read_from_a_header_of_version_1() {
        for (header, expected) in [
            (
                "PROXY TCP4 192.0.2.1 192.0.2.2 4711 443\r\n",
                Some("192.0.2.1"),
            ),
            (
                "PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n",
                Some("2001:db8::1"),
            ),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN 192.0.2.1 192.0.2.2 4711 443\r\n", None),
        ] {
            let (address, rest) = parse(format!("{header}GET").as_bytes()).await.unwrap();
            assert_eq!(address.as_deref(), expected, "{header}");
            assert_eq!(rest, b"GET");
        }
    }

    #[tokio::test]
    async fn the_client_address_is_read_from_a_header_of_version_2() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 18, 103, 1, 187];
        let mut v6 = [0; 36];
        v6[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
        v6[15] = 1;
        let fields = [&v4[..], &[4, 0, 2, 1, 2]].concat();
        for (header, expected) in [
            (v2(1, 0x11, &v4), Some("192.0.2.1")),
            (v2(1, 0x11, &fields), Some("192.0.2.1")),
            (v2(1, 0x21, &v6), Some("2001:db8::1")),
            (v2(1, 0x31, &[0; 216]), None),
            (v2(1, 0, &[]), None),
            (v2(0, 0x11, &v4), None),
            (v2(0, 0, &[]), None),
        ] {
            let bytes = [&header[..], b"GET"].concat();
            let (address, rest) = parse(&bytes).await.unwrap();
            assert_eq!(address.as_deref(), expected, "{header:?}");
            assert_eq!(rest, b"GET");
        }
    }

    #[tokio::test]
    async fn an_invalid_header_is_an_error() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(200));
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 18, 103, 1, 187];
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 4711 443".to_vec(),
            b"PROXY TCP4 2001:db8::1 192.0.2.2 4711 443\r\n".to_vec(),
            b"PROXY TCP5 192.0.2.1 192.0.2.2 4711 443\r\n".to_vec(),
            b"PROXY \xff\xff\xff\xff\xff\xff\xff\r\n".to_vec(),
            long.into_bytes(),
            b"PROXY".to_vec(),
            v2(2, 0x11, &v4),
            v2(1, 0x12, &v4),
            v2(1, 0x11, &v4[..8]),
            v2(1, 0x11, &[0; MAX_V2 + 1]),
            v2(1, 0x11, &v4)[..20].to_vec(),
        ] {
            assert!(parse(&bytes).await.is_err(), "{bytes:?}");
        }
    }
}
