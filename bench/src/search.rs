//! Measures the search index: the time and the memory to build it, its size, and searches in one
//! folder and in all folders, next to the IMAP commands SEARCH and FETCH for the same page.

mod corpus;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use self::corpus::{Generator, QUERIES, Query};
use crate::mailbox::append;
use crate::measure::{Call, Timings, Workload, measure_alone};
use crate::memory::anonymous;
use crate::messages::Random;
use crate::operations::{self, CLIENTS, SUMMARY, check_length, response_length};
use crate::report::Report;
use crate::service::{Account, Service};
use crate::{http, imap};

/// Number of messages on a page.
const PAGE: usize = 20;

/// Number of folders with messages, the inbox included.
const FOLDERS: usize = 30;

/// The inbox has this many times as many messages as each other folder.
const INBOX_SHARE: usize = 100;

/// Targets for one folder and for all folders: maximum p50 and p99 in milliseconds.
const ONE_FOLDER: [f64; 2] = [5.0, 20.0];
const ALL_FOLDERS: [f64; 2] = [15.0, 40.0];

/// Target: minimum searches per second with [`CLIENTS`] clients.
const MIN_RATE: f64 = 500.0;

/// Target: maximum CPU time of the host to build the index, per message in milliseconds.
const MAX_BUILD_CPU: f64 = 0.9;

/// Target: maximum growth of the anonymous memory while the index is built, in KiB.
const MAX_BUILD_MEMORY: f64 = 100.0 * 1024.0;

/// Target: maximum size of the index without stored texts, in percent of the indexed text.
const MAX_SIZE: f64 = 35.0;

/// The extension of tantivy's files with stored fields.
const STORED: &str = "store";

/// Maximum time to build the index.
const BUILD_TIMEOUT: Duration = Duration::from_mins(30);

/// A word in most messages of [`mailbox::fill`](crate::mailbox::fill).
const FREQUENT_WORD: &str = "algebraic";

/// The number of intervals of raw searches, because each search reads all messages.
const RAW_ROUNDS: usize = 1;

/// The messages of the account.
struct Corpus {
    /// The number of messages in the inbox.
    inbox: usize,
    /// The number of messages in each other folder.
    others: usize,
    /// The number of bytes of all indexed texts.
    text: usize,
}

impl Corpus {
    fn messages(&self) -> usize {
        self.inbox + (FOLDERS - 1) * self.others
    }

    /// Returns the number of messages that match a query.
    fn matching(&self, query: &Query, is_one_folder: bool) -> usize {
        let count = |messages| (1..=messages).filter(|n| (query.matches)(*n)).count();
        let others = if is_one_folder { 0 } else { count(self.others) };
        count(self.inbox) + (FOLDERS - 1) * others
    }
}

/// Measures the index and the searches, with an account of its own.
pub(crate) fn measure(
    service: &Service,
    account: &Account,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let corpus = fill(service, account, workload.searched)?;
    build(service, account, &corpus, report)?;
    for (folder, name, targets) in [
        ("INBOX", "one folder", ONE_FOLDER),
        ("*", "30 folders", ALL_FOLDERS),
    ] {
        for query in &QUERIES {
            let path = path(query, folder);
            let expected = corpus.matching(query, folder == "INBOX");
            check(&mut service.http_of(&account.token)?, &path, expected)?;
            let paths = [path];
            let mut calls = http_calls(service, account, &paths, 1)?;
            let times = measure_alone(workload, &mut calls)?;
            let raw = if folder == "INBOX" {
                Some(raw(service, account, query, workload)?)
            } else {
                None
            };
            let name = format!("search, {name}: {}", query.name);
            report.latencies(&name, raw.as_ref(), &times, targets);
        }
    }
    let paths = QUERIES.each_ref().map(|query| path(query, "INBOX"));
    let mut calls = http_calls(service, account, &paths, CLIENTS)?;
    let times = measure_alone(workload, &mut calls)?;
    report.rate(
        "search, one folder: all queries",
        CLIENTS,
        &times,
        Some(MIN_RATE),
    );
    Ok(())
}

/// Fills the mailbox.
fn fill(service: &Service, account: &Account, messages: usize) -> anyhow::Result<Corpus> {
    let mut client = service.imap_of(account)?;
    let mut generator = Generator::new(Random(3));
    let mut corpus = Corpus {
        inbox: messages,
        others: messages / INBOX_SHARE,
        text: 0,
    };
    for index in 0..FOLDERS {
        let (folder, count) = match index {
            0 => ("INBOX".to_owned(), corpus.inbox),
            index => (format!("Folder{index}"), corpus.others),
        };
        if index > 0 {
            client.run(&format!("CREATE {folder}"))?;
        }
        let generated = (1..=count).map(|number| {
            let message = generator.message(&folder, number);
            corpus.text += message.text;
            message.bytes
        });
        append(&mut client, &folder, generated)?;
    }
    Ok(corpus)
}

/// Measures how the service builds the index.
///
/// The memory is the resident anonymous memory. Mapped files of the index do not count, because
/// their pages belong to the page cache, which the kernel reclaims when it needs memory. The peak
/// is the maximum of samples, because the kernel records a peak only for all resident memory.
fn build(
    service: &Service,
    account: &Account,
    corpus: &Corpus,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut client = service.http_of(&account.token)?;
    let before = anonymous(service.pid())?;
    let mut peak = before;
    let (began, cpu) = (Instant::now(), cpu_time(service.pid())?);
    // The folder has no messages, so these searches cost little while the mail server serves them.
    let path = "/api/v1/mail/search?q=zephyr&folder=Drafts";
    let after = loop {
        let response = client.json(path)?;
        let memory = anonymous(service.pid())?;
        peak = peak.max(memory);
        match response["index"].as_str() {
            Some("ready") => break memory,
            Some("building") => {}
            other => anyhow::bail!("the state of the index is {other:?}"),
        }
        anyhow::ensure!(
            began.elapsed() < BUILD_TIMEOUT,
            "the index was not complete in time"
        );
        std::thread::sleep(Duration::from_millis(100));
    };
    #[expect(clippy::cast_precision_loss, reason = "counts and sizes below 2^52")]
    let [messages, text] = [corpus.messages(), corpus.text].map(|count| count as f64);
    let cpu = cpu_time(service.pid())?.saturating_sub(cpu);
    let name = format!("search index of {} messages", corpus.messages());
    let each = cpu.as_secs_f64() * 1e3 / messages;
    report.value(
        &format!("{name}, CPU time per message"),
        each,
        "ms",
        Some(MAX_BUILD_CPU),
    );
    let elapsed = began.elapsed().as_secs_f64();
    report.value(&format!("{name}, time"), elapsed, "s", None);
    report.memory(
        "anonymous, added while building the search index",
        peak - before,
        Some(MAX_BUILD_MEMORY),
    );
    report.memory("anonymous, with the search index", after, None);
    let [index, stored] = sizes(&service.index_folder())?;
    report.value(
        &format!("{name}, size in percent of the indexed text"),
        index * 100.0 / text,
        "%",
        Some(MAX_SIZE),
    );
    report.value(
        &format!("{name}, stored texts in percent of the indexed text"),
        stored * 100.0 / text,
        "%",
        None,
    );
    Ok(())
}

fn path(query: &Query, folder: &str) -> String {
    format!(
        "/api/v1/mail/search?q={}&folder={folder}&limit={PAGE}",
        query.text
    )
}

/// Checks that the index serves a search and finds the expected number of messages.
fn check(client: &mut http::Client, path: &str, expected: usize) -> anyhow::Result<()> {
    let found = client.json(path)?;
    anyhow::ensure!(
        found["index"] == "ready",
        "{path}: the index did not serve the search"
    );
    anyhow::ensure!(
        found["total"] == expected,
        "{path}: found {} messages instead of {expected}",
        found["total"]
    );
    let shown = found["messages"]
        .as_array()
        .context("the response has no messages")?
        .len();
    anyhow::ensure!(
        shown == expected.min(PAGE),
        "{path}: the page has {shown} messages"
    );
    Ok(())
}

/// Returns a call for each client. A client requests the paths in turn.
fn http_calls<'a>(
    service: &Service,
    account: &Account,
    paths: &'a [String],
    clients: usize,
) -> anyhow::Result<Vec<Call<'a>>> {
    (0..clients)
        .map(|number| -> anyhow::Result<Call<'a>> {
            let mut client = service.http_of(&account.token)?;
            let expected = paths
                .iter()
                .map(|path| response_length(&mut client, path, 0))
                .collect::<anyhow::Result<Vec<_>>>()?;
            let mut next = number;
            Ok(Box::new(move || {
                next = (next + 1) % paths.len();
                let length = client.get(&paths[next])?;
                check_length(length, expected[next])
            }))
        })
        .collect()
}

/// Measures the same search in the inbox with IMAP commands.
fn raw(
    service: &Service,
    account: &Account,
    query: &Query,
    workload: &Workload,
) -> anyhow::Result<Timings> {
    let criteria = format!("CHARSET UTF-8 {}", query.criterion);
    let mut calls = [raw_call(service.imap_of(account)?, criteria)];
    let workload = Workload {
        rounds: RAW_ROUNDS,
        ..*workload
    };
    measure_alone(&workload, &mut calls)
}

/// Returns a call of IMAP commands that search the inbox and fetch a page of the newest messages.
fn raw_call(mut client: imap::Client, criteria: String) -> Call<'static> {
    Box::new(move || {
        let found = client.search(&criteria)?;
        anyhow::ensure!(!found.is_empty(), "the mail server found no message");
        let newest: Vec<String> = found[found.len().saturating_sub(PAGE)..]
            .iter()
            .map(ToString::to_string)
            .collect();
        client.run(&format!("UID FETCH {} {SUMMARY}", newest.join(",")))?;
        Ok(())
    })
}

/// Returns a call of the route for [`FREQUENT_WORD`]. Waits until the index serves the search.
pub(crate) fn http_call(service: &Service, account: &Account) -> anyhow::Result<Call<'static>> {
    let path = format!("/api/v1/mail/search?q={FREQUENT_WORD}&folder=INBOX&limit={PAGE}");
    let mut client = service.http_of(&account.token)?;
    let began = Instant::now();
    while client.json(&path)?["index"] != "ready" {
        anyhow::ensure!(
            began.elapsed() < BUILD_TIMEOUT,
            "the index was not complete in time"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    operations::http_call(service, account, path, 0)
}

/// Returns a call of IMAP commands with the same result as [`http_call`].
pub(crate) fn imap_call(service: &Service, account: &Account) -> anyhow::Result<Call<'static>> {
    let criteria = format!("TEXT {FREQUENT_WORD}");
    Ok(raw_call(service.imap_of(account)?, criteria))
}

/// Returns the CPU time of a process in user mode and in the kernel.
pub(crate) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program, in parentheses, can contain spaces (proc(5)).
    let (_, fields) = stat
        .rsplit_once(')')
        .context("/proc/PID/stat has no name")?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || -> anyhow::Result<u64> {
        let field = fields.next().context("/proc/PID/stat has no CPU time")?;
        Ok(field.parse()?)
    };
    let ticks = ticks()? + ticks()?;
    Ok(Duration::from_millis(
        ticks * 1000 / rustix::param::clock_ticks_per_second(),
    ))
}

/// Returns the number of bytes of the files of the index, and of its stored texts.
#[expect(clippy::cast_precision_loss, reason = "sizes below 2^52 bytes")]
fn sizes(folder: &Path) -> anyhow::Result<[f64; 2]> {
    let mut sizes = [0.0; 2];
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let (path, metadata) = {
                let entry = entry?;
                (entry.path(), entry.metadata()?)
            };
            if metadata.is_dir() {
                folders.push(path);
            } else {
                let is_stored = path
                    .extension()
                    .is_some_and(|extension| extension == STORED);
                sizes[usize::from(is_stored)] += metadata.len() as f64;
            }
        }
    }
    Ok(sizes)
}
