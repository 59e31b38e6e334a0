//! The key `listen`: the address at which the service accepts connections.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The prefix of the path of a Unix socket.
const UNIX: &str = "unix:";

/// The address at which the service accepts connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// The path of a Unix socket, written as `unix:PATH`.
    Unix(PathBuf),
}

impl Listen {
    /// Returns the IP address and the port. Returns `None` for a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], 8080)))
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX).filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!("`{text}` is neither an IP address with a port nor `unix:` with the path of a socket")
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_tcp_port_or_a_unix_socket() {
        for text in ["127.0.0.1:8080", "[::1]:0", "unix:/run/latchmail/http.sock"] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!(listen.tcp().is_none(), text.starts_with("unix:"));
        }
        for text in ["", "unix:", "127.0.0.1", "localhost:80", "/run/http.sock"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
