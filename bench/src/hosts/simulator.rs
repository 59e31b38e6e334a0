//! An IMAP server that replies with recorded replies after a constant delay.
//!
//! The simulator asks a real mail server once for the reply to each command, in a new connection
//! with the same log-in and the same open folder. So the replies are real, and the mail server is
//! idle during the measurement. The mailboxes must not change.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

/// The time between a command and its reply.
const DELAY: Duration = Duration::from_millis(2);

/// The tag of commands to the mail server. No other line starts with it.
const TAG: &str = "simulator";

/// A running simulator. Its threads end with this program.
pub(super) struct Simulator {
    address: SocketAddr,
}

/// The mail server and its recorded replies.
struct Recordings {
    server: SocketAddr,
    greeting: Vec<u8>,
    /// The replies by the commands of their connections: the log-in, the command that opened the
    /// folder, and the command itself. A reply has no tag.
    replies: Mutex<HashMap<Vec<String>, Arc<[u8]>>>,
}

impl Simulator {
    /// Starts a simulator of the mail server at this address.
    pub(super) fn start(server: SocketAddr) -> anyhow::Result<Self> {
        let mut greeting = Vec::new();
        BufReader::new(TcpStream::connect(server)?).read_until(b'\n', &mut greeting)?;
        let recordings = Arc::new(Recordings {
            server,
            greeting,
            replies: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let recordings = Arc::clone(&recordings);
                thread::spawn(move || {
                    if let Err(error) = serve(&stream, &recordings) {
                        eprintln!("simulator: {error:#}");
                    }
                });
            }
        });
        Ok(Self { address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Replies to the commands of a connection until the client closes it.
fn serve(stream: &TcpStream, recordings: &Recordings) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    writer.write_all(&recordings.greeting)?;
    let (mut log_in, mut folder) = (None, None);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let (tag, command) = line
            .trim_end()
            .split_once(' ')
            .context("a command has no tag")?;
        let name = command.split(' ').next().unwrap_or_default();
        match name {
            "AUTHENTICATE" => log_in = Some(command.to_owned()),
            "SELECT" | "EXAMINE" => folder = None,
            _ => {}
        }
        let mut commands: Vec<String> = log_in.iter().chain(&folder).cloned().collect();
        if name != "AUTHENTICATE" {
            commands.push(command.to_owned());
        }
        let reply = recordings.reply(commands)?;
        // Only the last command of several commands that the client sent together has a delay.
        if reader.buffer().is_empty() {
            thread::sleep(DELAY);
        }
        let (data, result) = reply.split_at(tagged(&reply));
        writer.write_all(&[data, tag.as_bytes(), result].concat())?;
        if matches!(name, "SELECT" | "EXAMINE") {
            folder = Some(command.to_owned());
        }
    }
}

/// Returns the position of the last line.
fn tagged(reply: &[u8]) -> usize {
    let lines = reply.strip_suffix(b"\n").unwrap_or(reply);
    let end = lines.iter().rposition(|byte| *byte == b'\n');
    end.map_or(0, |end| end + 1)
}

impl Recordings {
    /// Returns the reply to the last of these commands.
    fn reply(&self, commands: Vec<String>) -> anyhow::Result<Arc<[u8]>> {
        let lock = || self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reply) = lock().get(&commands) {
            return Ok(Arc::clone(reply));
        }
        let reply: Arc<[u8]> = self.ask(&commands)?.into();
        lock().insert(commands, Arc::clone(&reply));
        Ok(reply)
    }

    /// Sends these commands to the mail server in a new connection. Returns the reply to the last
    /// one, without its tag.
    fn ask(&self, commands: &[String]) -> anyhow::Result<Vec<u8>> {
        let stream = TcpStream::connect(self.server)?;
        let (mut reader, mut writer) = (BufReader::new(&stream), &stream);
        reader.read_line(&mut String::new())?;
        let mut reply = Vec::new();
        for command in commands {
            writer.write_all(format!("{TAG} {command}\r\n").as_bytes())?;
            reply.clear();
            loop {
                let start = reply.len();
                anyhow::ensure!(
                    reader.read_until(b'\n', &mut reply)? > 0,
                    "the mail server closed the connection after {command}"
                );
                if let Some(result) = reply[start..].strip_prefix(TAG.as_bytes()) {
                    let result = result.to_vec();
                    reply.truncate(start);
                    reply.extend(result);
                    break;
                }
            }
        }
        Ok(reply)
    }
}
