//! A minimal SMTP client: one connection, one mail at a time, without pipelining.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A connection to the mail server.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    line: String,
}

impl Client {
    /// Connects and logs in.
    pub(crate) fn connect(
        address: SocketAddr,
        username: &str,
        password: &str,
    ) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            reader: BufReader::new(stream.try_clone()?),
            writer: stream,
            line: String::new(),
        };
        client.read_reply("220")?;
        client.run(b"EHLO bench.test\r\n", "250")?;
        let plain = STANDARD.encode(format!("\0{username}\0{password}"));
        client.run(format!("AUTH PLAIN {plain}\r\n").as_bytes(), "235")?;
        Ok(client)
    }

    /// Submits a mail. `message` is in wire format: dot-stuffed, with a final line of a single dot.
    pub(crate) fn send(&mut self, from: &str, to: &str, message: &[u8]) -> anyhow::Result<()> {
        self.run(format!("MAIL FROM:<{from}>\r\n").as_bytes(), "250")?;
        self.run(format!("RCPT TO:<{to}>\r\n").as_bytes(), "250")?;
        self.run(b"DATA\r\n", "354")?;
        self.run(message, "250")
    }

    fn run(&mut self, bytes: &[u8], expected: &str) -> anyhow::Result<()> {
        self.writer.write_all(bytes)?;
        self.read_reply(expected)
    }

    /// Reads a reply up to its last line, which has no hyphen after the code.
    fn read_reply(&mut self, expected: &str) -> anyhow::Result<()> {
        loop {
            self.line.clear();
            self.reader.read_line(&mut self.line)?;
            anyhow::ensure!(
                self.line.starts_with(expected),
                "the mail server responded with {:?} instead of {expected}",
                self.line.trim_end()
            );
            if self.line.as_bytes().get(3) != Some(&b'-') {
                return Ok(());
            }
        }
    }
}
