//! A Dovecot for one test, on loopback and a free port, with its own folder.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use latchmail_core::config;
use latchmail_mailserver::{DovecotVersion, free_port};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, set_child_subreaper,
    waitpgid,
};

/// The password of every mailbox.
pub(super) const PASSWORD: &str = "lmk \"secret\\";

pub(super) struct Dovecot {
    version: DovecotVersion,
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl Dovecot {
    pub(super) fn start() -> Self {
        Self::start_with(|_| "")
    }

    /// Starts a server that does not offer QRESYNC.
    pub(super) fn start_without_qresync() -> Self {
        Self::start_with(|version| match version {
            DovecotVersion::V2_3 => {
                "imap_capability = IMAP4rev1 LITERAL+ SPECIAL-USE LIST-EXTENDED LIST-STATUS UNSELECT UIDPLUS MOVE\n"
            }
            DovecotVersion::V2_4 => "imap_capability {\n  QRESYNC = no\n}\n",
        })
    }

    /// Starts a server with additional lines of configuration.
    fn start_with(more: fn(DovecotVersion) -> &'static str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("lm-mail-{:016x}", getrandom::u64().unwrap()));
        std::fs::create_dir_all(folder.join("home")).unwrap();
        std::os::unix::fs::chown(folder.join("home"), Some(65534), Some(65534)).unwrap();
        // A restart needs the same port.
        let port = free_port().unwrap().local_addr().unwrap().port();
        let version = DovecotVersion::installed().unwrap();
        let (first, last) = match version {
            DovecotVersion::V2_3 => ("", CONFIGURATION_2_3),
            DovecotVersion::V2_4 => (
                "dovecot_config_version = 2.4.1\ndovecot_storage_version = 2.4.1",
                CONFIGURATION_2_4,
            ),
        };
        let text = [first, CONFIGURATION, last, more(version)]
            .concat()
            .replace("@FOLDER@", &folder.display().to_string())
            .replace("@PORT@", &port.to_string());
        std::fs::write(folder.join("dovecot.conf"), text).unwrap();
        std::fs::write(folder.join("users"), USERS).unwrap();
        let child = run(&folder, port);
        Self {
            version,
            folder,
            port,
            child,
        }
    }

    pub(super) fn config(&self) -> config::Imap {
        super::config(self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn stop(&mut self) {
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        self.child.wait().unwrap();
        end_group(pid, Signal::TERM);
    }

    /// Kills the server immediately, even during a command.
    pub(super) fn kill(&mut self) {
        let pid = Pid::from_child(&self.child);
        let _ = kill_process_group(pid, Signal::KILL);
        self.child.wait().unwrap();
        end_group(pid, Signal::KILL);
    }

    /// Starts the same server again.
    pub(super) fn restart(&mut self) {
        self.child = run(&self.folder, self.port);
    }

    /// Logs in as another mail client.
    pub(super) fn client(&self, account: &str) -> Client {
        Client::log_in(self.port, account)
    }

    /// Returns the number of log-ins so far.
    pub(super) fn log_ins(&self) -> usize {
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap();
        let text = match self.version {
            DovecotVersion::V2_3 => "imap-login: Info: Login: ",
            DovecotVersion::V2_4 => "imap-login: Info: Logged in: ",
        };
        log.matches(text).count()
    }
}

impl Drop for Dovecot {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Waits until all processes of the group have ended. After their parent has ended, they are
/// children of this process (see [`run`]).
fn end_group(group: Pid, signal: Signal) {
    while let Ok(ended) = waitpgid(group, WaitOptions::NOHANG) {
        if ended.is_none() {
            let _ = kill_process_group(group, signal);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn run(folder: &std::path::Path, port: u16) -> Child {
    // Otherwise process 1 adopts processes that outlive their parent, and may take seconds to reap
    // them.
    set_child_subreaper(Some(getpid())).unwrap();
    let child = Command::new("dovecot")
        .process_group(0)
        .arg("-F")
        .arg("-c")
        .arg(folder.join("dovecot.conf"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        assert!(Instant::now() < deadline, "Dovecot did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// A minimal mail client.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    tag: u32,
    port: u16,
    account: String,
}

impl Client {
    fn log_in(port: u16, account: &str) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut client = Self {
            stream: BufReader::new(stream),
            tag: 0,
            port,
            account: account.into(),
        };
        client.line();
        client.ok(&format!(r#"LOGIN {account}@example.org "lmk \"secret\\""#));
        client
    }

    /// Sends a command that must succeed. Returns all replies.
    ///
    /// Dovecot 2.3 can fail to delete a folder while another session opens it, and then fails with
    /// "duplicate transaction log sequence" for the rest of the session. So the client logs in
    /// again and sends the command again, as a person would.
    pub(super) fn ok(&mut self, command: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let (end, replies) = self.exchange(command.as_bytes());
            let has_failed = command.starts_with("DELETE ") && end.starts_with("NO [SERVERBUG]");
            if !has_failed || Instant::now() > deadline {
                assert!(end.starts_with("OK"), "{command}: {end}");
                return replies;
            }
            *self = Self::log_in(self.port, &self.account);
        }
    }

    /// Appends a message to a folder. `more` contains optional flags in parentheses and an optional
    /// date in quotes.
    pub(super) fn append(&mut self, folder: &str, more: &str, message: &[u8]) {
        let mut command = format!("APPEND {folder} {more} {{{}+}}\r\n", message.len()).into_bytes();
        command.extend_from_slice(message);
        self.send(&command);
    }

    fn send(&mut self, command: &[u8]) -> String {
        let (end, replies) = self.exchange(command);
        assert!(
            end.starts_with("OK"),
            "{command:?}: {end}",
            command = String::from_utf8_lossy(command)
        );
        replies
    }

    /// Sends a command. Returns the end of the tagged reply, and all replies.
    fn exchange(&mut self, command: &[u8]) -> (String, String) {
        self.tag += 1;
        let tag = format!("t{} ", self.tag);
        let mut all = tag.clone().into_bytes();
        all.extend_from_slice(command);
        all.extend_from_slice(b"\r\n");
        self.stream.get_mut().write_all(&all).unwrap();
        let mut replies = String::new();
        loop {
            let line = self.line();
            replies.push_str(&line);
            if let Some(end) = line.strip_prefix(&tag) {
                return (end.to_owned(), replies);
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        assert!(!line.is_empty(), "the server closed the connection");
        let text = String::from_utf8_lossy(&line).into_owned();
        let literal = text
            .strip_suffix("}\r\n")
            .filter(|_| text.starts_with("* "))
            .and_then(|text| text.rsplit_once('{'))
            .and_then(|(_, length)| length.parse::<usize>().ok());
        match literal {
            Some(length) => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).unwrap();
                text + &String::from_utf8_lossy(&bytes) + &self.line()
            }
            None => text,
        }
    }
}

/// User names and passwords. The home folder is derived from the name.
const USERS: &str =
    "ada@example.org:{PLAIN}lmk \"secret\\\nbob@example.org:{PLAIN}lmk \"secret\\\n";

const CONFIGURATION: &str = r"
base_dir = @FOLDER@/run
state_dir = @FOLDER@/state
log_path = @FOLDER@/log
protocols = imap
listen = 127.0.0.1
ssl = no
auth_failure_delay = 0
mail_uid = 65534
mail_gid = 65534
first_valid_uid = 1
mail_max_userip_connections = 40
service imap-login {
  inet_listener imap {
    port = @PORT@
  }
  inet_listener imaps {
    port = 0
  }
}
service imap {
  process_min_avail = 1
}
service anvil {
  unix_listener anvil-auth-penalty {
    mode = 0
  }
}
namespace inbox {
  inbox = yes
  separator = /
  mailbox Sent {
    auto = create
    special_use = \Sent
  }
  mailbox Trash {
    auto = create
    special_use = \Trash
  }
  mailbox Archive {
    auto = create
    special_use = \Archive
  }
  mailbox Drafts {
    auto = create
    special_use = \Drafts
  }
}
";

const CONFIGURATION_2_3: &str = r"
disable_plaintext_auth = no
mail_location = mdbox:~/mdbox
service imap {
  service_count = 500
}
passdb {
  driver = passwd-file
  args = @FOLDER@/users
}
userdb {
  driver = static
  args = home=@FOLDER@/home/%u
}
";

const CONFIGURATION_2_4: &str = r"
auth_allow_cleartext = yes
mail_driver = mdbox
mail_path = ~/mdbox
service imap {
  restart_request_count = 500
}
passdb passwd-file {
  passwd_file_path = @FOLDER@/users
}
userdb static {
  fields {
    home = @FOLDER@/home/%{user}
  }
}
";
