//! Compares imports with APPEND, and a request for 20 messages with a request for one message.

use crate::mailbox::{self, Known, Mailbox};
use crate::measure::{self, Call, Workload};
use crate::messages::{Random, message_with_file, newsletter};
use crate::operations::{detail, http_call};
use crate::report::Report;
use crate::service::Service;

/// Number of messages in one request.
const MESSAGES: usize = 20;

/// Measures the import of a small and of a large message. Each side has its own folder, because
/// APPEND locks its folder.
pub(crate) fn import(
    service: &Service,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut random = Random(5);
    let messages = [
        ("20 kB", newsletter(1, 20_000, &mut random)),
        ("1 MB", message_with_file(2, 1024 * 1024, &mut random)),
    ];
    for folder in ["ImapImports", "HttpImports"] {
        mailbox::create_folder(service, folder, 0)?;
    }
    for (size, message) in messages {
        let mut left = [append_call(service, "ImapImports", message.clone())?];
        let mut right = [import_call(service, "HttpImports", message)?];
        let [raw, route] = measure::compare(workload, &mut left, &mut right)?;
        report.latency(&format!("import of {size}"), &raw, &route, None);
    }
    Ok(())
}

fn append_call(
    service: &Service,
    folder: &'static str,
    message: Vec<u8>,
) -> anyhow::Result<Call<'static>> {
    let mut imap = service.imap()?;
    let messages = [message];
    Ok(Box::new(move || imap.append(folder, &messages)))
}

fn import_call(service: &Service, folder: &str, message: Vec<u8>) -> anyhow::Result<Call<'static>> {
    let mut http = service.http()?;
    let path = format!("/api/v1/mail/folders/{folder}/messages");
    Ok(Box::new(move || {
        let response = http.post_message(&path, &message)?;
        anyhow::ensure!(
            response.status == 201,
            "{path}: {} {}",
            response.status,
            String::from_utf8_lossy(&response.body)
        );
        Ok(())
    }))
}

/// Measures a request for 20 messages. The counterpart is a request for one message.
pub(crate) fn several_messages(
    service: &Service,
    mailbox: &Mailbox,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let account = service.measured();
    let uids = mailbox::newest_uids(service, account, "INBOX", MESSAGES)?;
    let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
    let one = detail(mailbox, Known::Newsletter);
    for view in ["detail", "summary"] {
        let path = format!("/api/v1/mail/messages?uids={}&view={view}", uids.join(","));
        let mut left = [http_call(service, account, one.clone(), 15_000)?];
        let mut right = [http_call(service, account, path, 5_000)?];
        let [single, several] = measure::compare(workload, &mut left, &mut right)?;
        let name = format!("{MESSAGES} messages, {view}, against one message");
        report.latency(&name, &single, &several, None);
    }
    Ok(())
}
