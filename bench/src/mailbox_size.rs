//! Measures how the latencies of frequent operations depend on the number of messages in the
//! mailbox.
//!
//! Each size has an account of its own, because the mail server stores all messages of an account
//! together. All messages are short, so that the sizes differ only in the number of messages. The
//! searches use the index.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::Runtime;

use crate::http::Client;
use crate::mailbox::append;
use crate::measure::{Call, Timings, Workload, measure_alone};
use crate::messages::{Random, short_message};
use crate::plots::{Plot, Series, number};
use crate::report::Report;
use crate::service::{Account, Service};

/// Number of messages on a page.
const PAGE: usize = 50;

/// Number of different messages that are requested in turn. They are spread over the whole mailbox.
const DIFFERENT: usize = 50;

/// Maximum time to build an index.
const BUILD_TIMEOUT: Duration = Duration::from_mins(10);

const SEARCH: &str = "/api/v1/mail/search?q=sender17&folder=INBOX&limit=20";

/// The measured operations.
const OPERATIONS: [&str; 4] = ["first page", "last page", "one message", "search"];

/// The timings of all operations in a mailbox.
struct Figures {
    messages: usize,
    timings: [Timings; OPERATIONS.len()],
}

/// Fills a mailbox of each size and measures it.
pub(crate) fn measure(
    host: &Path,
    modules: &Path,
    runtime: &Runtime,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let service = runtime.block_on(Service::start_with(&mut Command::new(host), modules, ""))?;
    let figures = workload
        .mailboxes
        .into_iter()
        .map(|messages| {
            let account = runtime.block_on(service.create_account(&format!("size{messages}")))?;
            fill(&service, &account, messages)?;
            measure_mailbox(&service, &account, messages, workload)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    runtime.block_on(service.stop());
    present(&figures, report)
}

fn fill(service: &Service, account: &Account, messages: usize) -> anyhow::Result<()> {
    let mut random = Random(6);
    let messages = (1..=messages).map(|number| short_message("INBOX", number, &mut random));
    let mut client = service.imap_of(account)?;
    append(&mut client, "INBOX", messages)?;
    // Clears `\Recent`, which slows down the mail server until a mail client opens the folder.
    client.run("SELECT INBOX")?;
    Ok(())
}

fn measure_mailbox(
    service: &Service,
    account: &Account,
    messages: usize,
    workload: &Workload,
) -> anyhow::Result<Figures> {
    let mut client = service.http_of(&account.token)?;
    let uids = (0..DIFFERENT)
        .map(|index| uid_at(&mut client, 1 + index * messages / DIFFERENT))
        .collect::<anyhow::Result<Vec<_>>>()?;
    build_index(&mut client)?;
    let paths = [
        vec![page(1)],
        vec![page(messages.div_ceil(PAGE))],
        uids.iter()
            .map(|uid| format!("/api/v1/mail/messages/{uid}"))
            .collect(),
        vec![SEARCH.to_owned()],
    ];
    let mut timings: [Timings; OPERATIONS.len()] = Default::default();
    for (timings, paths) in timings.iter_mut().zip(&paths) {
        let mut client = service.http_of(&account.token)?;
        let mut next = 0;
        let call: Call<'_> = Box::new(move || {
            next = (next + 1) % paths.len();
            client.get(&paths[next]).map(drop)
        });
        *timings = measure_alone(workload, &mut [call])?;
    }
    Ok(Figures { messages, timings })
}

fn page(number: usize) -> String {
    format!("/api/v1/mail/folders/INBOX/messages?limit={PAGE}&page={number}")
}

/// Returns the `uid` of the message at this position, counted from the newest message.
fn uid_at(client: &mut Client, position: usize) -> anyhow::Result<u64> {
    let path = format!("/api/v1/mail/folders/INBOX/messages?limit=1&page={position}");
    let uid = client.json(&path)?["messages"][0]["uid"].as_u64();
    uid.context("the listing has no message")
}

/// Waits until the index serves the searches.
fn build_index(client: &mut Client) -> anyhow::Result<()> {
    let deadline = Instant::now() + BUILD_TIMEOUT;
    // The folder has no messages, so these searches cost little while the mail server serves them.
    while client.json("/api/v1/mail/search?q=zephyr&folder=Drafts")?["index"] != "ready" {
        anyhow::ensure!(
            Instant::now() < deadline,
            "the search index was not complete in time"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Adds the rows of the table, the plots and the table of the page.
#[expect(clippy::cast_precision_loss, reason = "counts of messages")]
fn present(figures: &[Figures], report: &mut Report) -> anyhow::Result<()> {
    let millis = |times: &Timings, share| times.percentile(share).as_secs_f64() * 1e3;
    let [first, .., last] = figures else {
        anyhow::bail!("there are too few sizes of mailboxes");
    };
    for (index, operation) in OPERATIONS.into_iter().enumerate() {
        let [in_largest, in_smallest] = [last, first].map(|one| millis(&one.timings[index], 0.5));
        let [all, few] = [last.messages, first.messages];
        let name = format!("{operation} of {all} and {few} messages, p50");
        report.value(&name, in_largest / in_smallest, "×", None);
    }
    let plot = |label: &str, share| Plot {
        file: format!("growth-messages-{label}"),
        title: format!("Latency and size of the mailbox, {label}"),
        x_label: "Messages in the inbox",
        y_label: "Latency (ms)",
        log_x: true,
        log_y: true,
        series: (0..OPERATIONS.len())
            .map(|index| Series {
                name: OPERATIONS[index].into(),
                points: figures
                    .iter()
                    .map(|one| (one.messages as f64, millis(&one.timings[index], share)))
                    .collect(),
            })
            .collect(),
    };
    report.page.section(
        "Size of the mailbox",
        "Each size is the inbox of an account of its own, with short messages. The searches use the index and find one message in 300.",
    );
    report.page.plots(
        &[plot("p50", 0.5), plot("p99", 0.99)],
        "One client requests the first page, the last page, single messages from the whole inbox in turn, and a search. A flat line means that the size of the mailbox does \
         not matter.",
    )?;
    let rows: Vec<[String; 1 + OPERATIONS.len()]> = figures
        .iter()
        .map(|one| {
            std::array::from_fn(|column| match column.checked_sub(1) {
                None => number(one.messages as f64),
                Some(index) => {
                    let times = &one.timings[index];
                    let [p50, p99] = [0.5, 0.99].map(|share| number(millis(times, share)));
                    format!("{p50} / {p99}")
                }
            })
        })
        .collect();
    report.page.table(
        [
            "Messages",
            "First page, p50 / p99 (ms)",
            "Last page",
            "One message",
            "Search",
        ],
        &rows,
    );
    Ok(())
}
