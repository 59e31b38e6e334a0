//! A minimal IMAP client: one connection, one command at a time. It reads responses up to the
//! tagged line and does not parse them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A connection to the mail server.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    line: Vec<u8>,
}

impl Client {
    /// Connects, logs in and selects the inbox.
    pub(crate) fn connect(
        address: SocketAddr,
        username: &str,
        password: &str,
    ) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self {
            reader: BufReader::with_capacity(256 * 1024, stream.try_clone()?),
            writer: stream,
            line: Vec::new(),
        };
        client.read_line()?;
        let plain = STANDARD.encode(format!("\0{username}\0{password}"));
        client.run(&format!("AUTHENTICATE PLAIN {plain}"))?;
        client.run("SELECT INBOX")?;
        Ok(client)
    }

    /// Runs a command and returns the number of bytes in the literals of its responses.
    pub(crate) fn run(&mut self, command: &str) -> anyhow::Result<usize> {
        self.run_with(command, |_| {})
    }

    /// Runs a command and calls `on_response` with the first line of each untagged response.
    /// Returns the same number as [`Client::run`].
    pub(crate) fn run_with(
        &mut self,
        command: &str,
        on_response: impl FnMut(&[u8]),
    ) -> anyhow::Result<usize> {
        self.writer
            .write_all(format!("a {command}\r\n").as_bytes())?;
        self.read_responses(on_response)
    }

    /// Runs a search and returns the found UIDs in ascending order.
    pub(crate) fn search(&mut self, criteria: &str) -> anyhow::Result<Vec<u32>> {
        let mut found = Vec::new();
        self.run_with(&format!("UID SEARCH {criteria}"), |response| {
            if let Some(uids) = response.strip_prefix(b"* SEARCH ") {
                let uids = String::from_utf8_lossy(uids);
                found.extend(
                    uids.split_ascii_whitespace()
                        .filter_map(|uid| uid.parse::<u32>().ok()),
                );
            }
        })?;
        found.sort_unstable();
        Ok(found)
    }

    /// Appends messages to a folder with one command (RFC 3502, RFC 7888).
    pub(crate) fn append(&mut self, folder: &str, messages: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut command = format!("a APPEND {folder}").into_bytes();
        for message in messages {
            command.extend_from_slice(format!(" {{{}+}}\r\n", message.len()).as_bytes());
            command.extend_from_slice(message);
        }
        command.extend_from_slice(b"\r\n");
        self.writer.write_all(&command)?;
        self.read_responses(|_| {})?;
        Ok(())
    }

    fn read_responses(&mut self, mut on_response: impl FnMut(&[u8])) -> anyhow::Result<usize> {
        let mut literals = 0;
        loop {
            self.read_line()?;
            if let Some(rest) = self.line.strip_prefix(b"a ") {
                let line = String::from_utf8_lossy(rest);
                anyhow::ensure!(
                    line.starts_with("OK"),
                    "the mail server responded with {line}"
                );
                return Ok(literals);
            }
            on_response(&self.line);
            while let Some(length) = literal(&self.line) {
                literals += length;
                self.skip(length)?;
                self.read_line()?;
            }
        }
    }

    fn read_line(&mut self) -> anyhow::Result<()> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        anyhow::ensure!(
            !self.line.is_empty(),
            "the mail server closed the connection"
        );
        Ok(())
    }

    fn skip(&mut self, mut length: usize) -> anyhow::Result<()> {
        while length > 0 {
            let available = self.reader.fill_buf()?.len().min(length);
            anyhow::ensure!(available > 0, "the mail server closed the connection");
            self.reader.consume(available);
            length -= available;
        }
        Ok(())
    }
}

/// Returns the length of the literal that follows the line, if there is one.
fn literal(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"}\r\n")?;
    let open = line.iter().rposition(|byte| *byte == b'{')?;
    std::str::from_utf8(&line[open + 1..]).ok()?.parse().ok()
}
