//! Tests of changes that another mail client makes while the service reads an earlier change. A
//! proxy is between the service and a real server. Before the proxy forwards the n-th response, the
//! other client makes its change. Each test repeats this for each n, until the service needs fewer
//! responses.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use latchmail_core::message_number::MessageNumber;
use tokio::runtime::Handle;

use super::dovecot::{Client, Dovecot};
use super::{TestMailbox, config, new_mail, with_dovecot, with_keys, with_mailbox};
use crate::Mail;
use crate::changelog::Change;

type Action = Box<dyn FnOnce() + Send>;

/// The number of responses that are forwarded before the action, and the action.
type Trap = Arc<Mutex<Option<(usize, Action)>>>;

/// A proxy in front of the mail server.
struct Proxy {
    port: u16,
    trap: Trap,
}

impl Proxy {
    fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let trap = Trap::default();
        let responses = Arc::clone(&trap);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || forward(from, to, None));
                let trap = Arc::clone(&responses);
                thread::spawn(move || forward(server, client, Some(&trap)));
            }
        });
        Self { port, trap }
    }

    fn set(&self, responses: usize, action: Action) {
        *self.trap.lock().unwrap() = Some((responses, action));
    }

    /// Runs the action if it has not run. Returns `false` in that case.
    fn has_run(&self) -> bool {
        let Some((_, action)) = self.trap.lock().unwrap().take() else {
            return true;
        };
        action();
        false
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, trap: Option<&Trap>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..read];
        if let Some(trap) = trap.filter(|_| contains_response(bytes)) {
            let mut trap = trap.lock().unwrap();
            match trap.take() {
                Some((0, action)) => action(),
                Some((responses, action)) => *trap = Some((responses - 1, action)),
                None => {}
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Returns `true` if a line of the server ends a command.
fn contains_response(bytes: &[u8]) -> bool {
    bytes.split(|byte| *byte == b'\n').any(|line| {
        let mut words = line.split(|byte| *byte == b' ');
        words.next().is_some_and(|tag| !matches!(tag, b"*" | b"+"))
            && matches!(words.next(), Some(b"OK" | b"NO" | b"BAD"))
    })
}

/// Two changes of another client. Each round has a message in INBOX and new folders: `{a}` and
/// `{b}` exist, and `{c}` is free.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    /// The commands of the change that the service reads.
    first: &'static [&'static str],
    /// The commands of the change while the service reads.
    second: &'static [&'static str],
    /// The folders of the messages afterwards, in the order of their numbers.
    expected: &'static [&'static str],
}

const MOVED: &[&str] = &["SELECT INBOX", "MOVE 1 {a}", "CLOSE"];
const MOVED_AGAIN: &[&str] = &["SELECT {a}", "MOVE 1 {b}", "CLOSE"];

const RENAMED: [Scenario; 4] = [
    Scenario {
        name: "moved, then the folder is renamed",
        first: MOVED,
        second: &["RENAME {a} {c}"],
        expected: &["{c}"],
    },
    Scenario {
        name: "moved, then the folder is replaced",
        first: MOVED,
        second: &["RENAME {a} {c}", "CREATE {a}"],
        expected: &["{c}"],
    },
    Scenario {
        name: "moved, then the folders are exchanged",
        first: MOVED,
        second: &["RENAME {a} {c}", "RENAME {b} {a}", "RENAME {c} {b}"],
        expected: &["{b}"],
    },
    Scenario {
        name: "arrived, then the folder is renamed",
        first: &["APPEND {a} {1+}\r\nx"],
        second: &["RENAME {a} {c}"],
        expected: &["INBOX", "{c}"],
    },
];

const MOVED_TWICE: [Scenario; 6] = [
    Scenario {
        name: "moved, then moved again",
        first: MOVED,
        second: MOVED_AGAIN,
        expected: &["{b}"],
    },
    Scenario {
        name: "moved, then moved back",
        first: MOVED,
        second: &["SELECT {a}", "MOVE 1 INBOX", "CLOSE"],
        expected: &["INBOX"],
    },
    Scenario {
        name: "moved, then moved again and the folder is deleted",
        first: MOVED,
        second: &["SELECT {a}", "MOVE 1 {b}", "CLOSE", "DELETE {a}"],
        expected: &["{b}"],
    },
    Scenario {
        name: "moved, then moved to a folder that is renamed",
        first: MOVED,
        second: &["SELECT {a}", "MOVE 1 {b}", "CLOSE", "RENAME {b} {c}"],
        expected: &["{c}"],
    },
    Scenario {
        name: "moved, then copied and expunged",
        first: MOVED,
        second: &[
            "SELECT {a}",
            "COPY 1 {b}",
            "STORE 1 +FLAGS (\\Deleted)",
            "CLOSE",
        ],
        expected: &["{b}"],
    },
    Scenario {
        name: "flagged, then moved to a folder that is renamed",
        first: &["SELECT INBOX", "STORE 1 +FLAGS (\\Seen)", "CLOSE"],
        second: &["SELECT INBOX", "MOVE 1 {a}", "CLOSE", "RENAME {a} {c}"],
        expected: &["{c}"],
    },
];

const REMOVED: [Scenario; 3] = [
    Scenario {
        name: "moved, then expunged",
        first: MOVED,
        second: &["SELECT {a}", "STORE 1 +FLAGS (\\Deleted)", "CLOSE"],
        expected: &[],
    },
    Scenario {
        name: "moved, then the folder is deleted",
        first: MOVED,
        second: &["DELETE {a}"],
        expected: &[],
    },
    Scenario {
        name: "copied, then the original is expunged and the folder is deleted",
        first: &["SELECT INBOX", "COPY 1 {a}", "CLOSE"],
        second: &[
            "SELECT INBOX",
            "STORE 1 +FLAGS (\\Deleted)",
            "CLOSE",
            "DELETE {a}",
        ],
        expected: &[],
    },
];

/// Returns the text with the names of the folders of a round.
fn in_round(text: &str, round: usize) -> String {
    ["a", "b", "c"].iter().fold(text.to_owned(), |text, name| {
        text.replace(&format!("{{{name}}}"), &format!("{name}{round}"))
    })
}

/// The other mail client.
#[derive(Clone)]
struct OtherClient(Arc<Mutex<Client>>);

impl OtherClient {
    fn run(&self, commands: &[&str], round: usize) {
        let mut client = self.0.lock().unwrap();
        for command in commands {
            client.ok(&in_round(command, round));
        }
    }

    fn action(&self, commands: &'static [&'static str], round: usize) -> Action {
        let client = self.clone();
        Box::new(move || client.run(commands, round))
    }

    /// Removes the folders of the round, and the messages that it has left in INBOX.
    fn clean(&self, round: usize) {
        let mut client = self.0.lock().unwrap();
        for letter in ["a", "b", "c"] {
            let path = format!("{letter}{round}");
            if client.ok(&format!("LIST \"\" {path}")).contains("* LIST") {
                client.ok(&format!("DELETE {path}"));
            }
        }
        if !client.ok("SELECT INBOX").contains("* 0 EXISTS") {
            client.ok("STORE 1:* +FLAGS (\\Deleted)");
        }
        client.ok("CLOSE");
    }
}

impl TestMailbox {
    /// Replaces the service by one that is behind a proxy.
    fn set_proxy(&mut self) -> Proxy {
        let proxy = Proxy::start(self.dovecot.port());
        let directory = self.fresh.directory.clone();
        let mail = Mail::new(&config(proxy.port), directory, with_keys(&[1]));
        self.mail = Arc::new(mail.unwrap());
        proxy
    }

    /// Applies the changes since the cursor to a client's copy of the mailbox: the folders of the
    /// messages by their numbers. Returns the changes.
    async fn follow(
        &self,
        cursor: &mut String,
        copy: &mut BTreeMap<MessageNumber, String>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        loop {
            let page = self.page(Some(cursor), None, 100).await;
            *cursor = page.cursor;
            changes.extend(page.changes);
            if !page.more {
                break;
            }
        }
        for change in &changes {
            match change {
                Change::Created { number, folder, .. } => {
                    assert_eq!(copy.insert(*number, folder.clone()), None, "{changes:?}");
                }
                Change::Flags { number, folder, .. } => {
                    assert_eq!(copy.get(number), Some(folder), "{changes:?}");
                }
                Change::Moved {
                    number,
                    folder,
                    from,
                    ..
                } => {
                    let before = copy.insert(*number, folder.clone());
                    assert_eq!(before.as_ref(), Some(from), "{changes:?}");
                }
                // A message that was soon deleted can have no `created`.
                Change::Deleted { number, .. } => drop(copy.remove(number)),
                Change::FolderCreated { .. } => {}
                Change::FolderRenamed { folder, from, .. } => {
                    for path in copy.values_mut().filter(|path| *path == from) {
                        path.clone_from(folder);
                    }
                }
                Change::FolderDeleted { folder, .. } => copy.retain(|_, path| path != folder),
            }
        }
        changes
    }

    /// Runs the rounds of a scenario. `other_host` also syncs after the second change.
    async fn explore(&self, proxy: &Proxy, scenario: Scenario, other_host: Option<Arc<Mail>>) {
        let Scenario {
            name,
            first,
            second,
            expected,
        } = scenario;
        let client = OtherClient(Arc::new(Mutex::new(self.dovecot.client("ada"))));
        let mut cursor = self.cursor().await;
        for round in 0.. {
            client.run(&["CREATE {a}", "CREATE {b}"], round);
            let number = self.append("INBOX", &["x"]).await[0];
            let mut copy = BTreeMap::new();
            self.follow(&mut cursor, &mut copy).await;
            assert_eq!(copy, BTreeMap::from([(number, "INBOX".into())]));
            client.run(first, round);
            let change = client.action(second, round);
            let (host, access, runtime) =
                (other_host.clone(), self.access.clone(), Handle::current());
            let action = move || {
                change();
                if let Some(host) = host {
                    runtime.block_on(host.numbers.sync(&access)).unwrap();
                }
            };
            proxy.set(round, Box::new(action));
            let mut changes = self.follow(&mut cursor, &mut copy).await;
            let has_run = tokio::task::block_in_place(|| proxy.has_run());
            changes.extend(self.follow(&mut cursor, &mut copy).await);
            let case = format!("{name}, before response {round}: {changes:?}");
            let folders: Vec<&String> = copy.values().collect();
            let expected: Vec<String> = expected.iter().map(|path| in_round(path, round)).collect();
            assert_eq!(folders, expected.iter().collect::<Vec<_>>(), "{case}");
            if !expected.is_empty() {
                assert_eq!(copy.keys().next(), Some(&number), "{case}");
            }
            let rest = self.follow(&mut cursor, &mut copy).await;
            assert!(rest.is_empty(), "{case}, then {rest:?}");
            client.clean(round);
            self.follow(&mut cursor, &mut copy).await;
            assert_eq!(copy, BTreeMap::new(), "{case}");
            if !has_run {
                assert!(round > 1, "{name}");
                return;
            }
        }
    }

    async fn explore_all(mut self, scenarios: &[Scenario]) {
        let proxy = self.set_proxy();
        for scenario in scenarios {
            self.explore(&proxy, *scenario, None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_its_number_if_its_folder_is_renamed_while_its_move_is_read() {
    with_mailbox(|test| test.explore_all(&RENAMED)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_its_number_if_it_is_moved_while_its_move_is_read() {
    with_mailbox(|test| test.explore_all(&MOVED_TWICE)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_removed_while_its_move_is_read_is_deleted() {
    with_mailbox(|test| test.explore_all(&REMOVED)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_its_number_while_its_move_is_read_without_qresync() {
    let scenarios = || RENAMED.into_iter().chain(MOVED_TWICE).chain(REMOVED);
    with_dovecot(Dovecot::start_without_qresync, async move |test| {
        let scenarios: Vec<_> = scenarios().collect();
        Box::pin(test.explore_all(&scenarios)).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_keeps_its_number_if_another_host_reads_its_next_move() {
    with_mailbox(async |mut test| {
        let proxy = test.set_proxy();
        let host = Arc::new(new_mail(&test.dovecot.config(), &test.fresh.directory));
        for scenario in [RENAMED[0], RENAMED[2], MOVED_TWICE[0], MOVED_TWICE[1]] {
            test.explore(&proxy, scenario, Some(Arc::clone(&host)))
                .await;
        }
    })
    .await;
}

/// A route that reads messages by their numbers.
#[derive(Clone, Copy, Debug)]
enum Read {
    Summaries,
    Messages,
    Message,
}

impl TestMailbox {
    /// Returns `true` if the message was found.
    async fn finds(&self, read: Read, number: MessageNumber) -> bool {
        let (access, Mail { reading, .. }) = (&self.access, &*self.mail);
        match read {
            Read::Summaries => {
                let found = self.mail.listing.by_numbers(access, &[number]).await;
                !found.unwrap().is_empty()
            }
            Read::Messages => {
                let found = reading.messages(access, &[number]).await;
                !found.unwrap().is_empty()
            }
            Read::Message => reading.message(access, number).await.unwrap().is_some(),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_found_while_another_client_moves_it() {
    with_mailbox(async |mut test| {
        let proxy = test.set_proxy();
        let client = OtherClient(Arc::new(Mutex::new(test.dovecot.client("ada"))));
        for second in [MOVED_AGAIN, RENAMED[0].second, RENAMED[2].second] {
            for read in [Read::Summaries, Read::Messages, Read::Message] {
                for round in 0.. {
                    client.run(&["CREATE {a}", "CREATE {b}"], round);
                    let number = test.append("INBOX", &["x"]).await[0];
                    client.run(MOVED, round);
                    proxy.set(round, client.action(second, round));
                    let found = test.finds(read, number).await;
                    assert!(found, "{read:?}, {second:?} before response {round}");
                    let has_run = proxy.has_run();
                    assert!(test.finds(read, number).await, "{read:?}, {second:?}");
                    client.clean(round);
                    assert!(!test.finds(read, number).await, "{read:?}, {second:?}");
                    if !has_run {
                        assert!(round > 1);
                        break;
                    }
                }
            }
        }
    })
    .await;
}
