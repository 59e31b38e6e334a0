//! Compares the sandbox with native code: the mail component in a new sandbox and the same code as
//! a library list 50 messages that are in memory.

use std::path::Path;

use latchmail_bindings::exports::latchmail::host::module as wit;
use latchmail_bindings::latchmail::host;
use latchmail_bindings::latchmail::host::types::Error;
use latchmail_bindings::{Blob, EventStream, Everything, EverythingPre, HostError};
use latchmail_sdk::capability as sdk;
use wasmtime::component::{Component, HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder, UpdateDeadline};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::measure::{Call, Timings, Workload, compare};
use crate::plots::number;
use crate::report::Report;

/// Target: maximum time that the sandbox adds, in microseconds.
const MAX_OVERHEAD: f64 = 70.0;
const SUMMARIES: u32 = 50;

/// Measures the time that the sandbox adds.
pub(crate) fn measure(
    modules: &Path,
    workload: &Workload,
    report: &mut Report,
) -> anyhow::Result<()> {
    let cache = tempfile::tempdir()?;
    let engine = latchmail_runtime::modules::engine(64, cache.path())?;
    let component = Component::from_file(&engine, modules.join("latchmail_mail.wasm"))?;
    let pre = EverythingPre::new(linker(&engine)?.instantiate_pre(&component)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let native = latchmail_mail::module::<Memory>();
    let request = || latchmail_sdk::Request {
        path: vec![("folder".into(), "INBOX".into())],
        ..latchmail_sdk::Request::default()
    };
    let mut left: [Call<'_>; 1] = [Box::new(|| {
        let reply = native.serve(&Memory, "listMessages", &request());
        anyhow::ensure!(reply.status == 200, "unexpected status {}", reply.status);
        Ok(())
    })];
    let mut right: [Call<'_>; 1] = [Box::new(|| {
        let reply = runtime.block_on(serve_in_new_sandbox(&engine, &pre))?;
        anyhow::ensure!(reply.status == 200, "unexpected status {}", reply.status);
        Ok(())
    })];
    let [native, sandboxed] = compare(workload, &mut left, &mut right)?;
    report.sandbox("sandbox, listing of 50", &native, &sandboxed, MAX_OVERHEAD);
    report.page.section(
        "Sandbox and native code",
        "The mail component lists 50 messages that are in memory: in a new sandbox for each request, as in the service, and compiled as native code. There is no \
         HTTP, no mail server and no database, so the difference is the cost of the sandbox.",
    );
    let row = |name: &str, times: &Timings| {
        let [p50, p99] = [0.5, 0.99].map(|share| number(times.millis(share) * 1e3));
        [name.to_owned(), p50, p99]
    };
    report.page.table(
        ["", "p50 (µs)", "p99 (µs)"],
        &[row("native", &native), row("sandbox", &sandboxed)],
    );
    Ok(())
}

/// Serves one request in a new sandbox with the limits of the host.
async fn serve_in_new_sandbox(
    engine: &Engine,
    pre: &EverythingPre<State>,
) -> anyhow::Result<wit::Response> {
    let output = MemoryOutputPipe::new(64 * 1024);
    let state = State {
        memory: Memory,
        wasi: WasiCtx::builder()
            .stdout(output.clone())
            .stderr(output)
            .max_random_size(64 * 1024)
            .build(),
        table: ResourceTable::new(),
        limits: StoreLimitsBuilder::new().memory_size(64 << 20).build(),
    };
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limits);
    store.set_hostcall_fuel(16 * 1024 * 1024);
    let mut left = 10_000_u32;
    store.call_hook(move |_, hook| {
        if matches!(hook, wasmtime::CallHook::CallingHost) {
            left = left
                .checked_sub(1)
                .ok_or_else(|| wasmtime::Error::msg("too many host calls"))?;
        }
        Ok(())
    });
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|_| Ok(UpdateDeadline::Continue(1)));
    let instance: Everything = pre.instantiate_async(&mut store).await?;
    let request = wit::Request {
        id: "bench".into(),
        path: vec![("folder".into(), "INBOX".into())],
        query: Vec::new(),
        headers: Vec::new(),
        body: wit::Body::Bytes(Vec::new()),
        blobs: Vec::new(),
    };
    let module = instance.latchmail_host_module();
    Ok(module
        .call_handle(&mut store, "listMessages", &request)
        .await?)
}

/// A mailbox in memory, which both sides use.
struct Memory;

fn text(number: u32) -> String {
    format!("Number {number} – the engine weaves algebraic patterns just as a loom weaves flowers")
}

/// Creates a listing with the types in the module `$types`.
macro_rules! listing {
    ($types:ident, $limit:expr) => {
        $types::Listing {
            messages: (0..$limit.min(SUMMARIES))
                .map(|number| $types::Summary {
                    uid: u64::from(number) + 1,
                    seq: number + 1,
                    from: vec![$types::Address {
                        name: "Grace Hopper".into(),
                        address: "grace@outside.test".into(),
                    }],
                    to: vec![$types::Address {
                        name: "Ada Lovelace".into(),
                        address: "ada@bench.test".into(),
                    }],
                    subject: text(number),
                    date: 1_795_161_600_000 + i64::from(number),
                    flags: vec!["\\Seen".into()],
                    size: 20_000,
                    preview: text(number).repeat(3),
                    thread_id: "0123456789abcdef".into(),
                })
                .collect(),
            total: SUMMARIES,
            next: None,
        }
    };
}

// After the macro, which the module uses.
mod drafts;
mod filters;
mod mailbox;
mod outbox;

impl sdk::Mailbox for Memory {
    fn list_folders(&self) -> Result<Vec<sdk::Folder>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn list_messages(&self, query: &sdk::MessageQuery) -> Result<sdk::Listing, sdk::Error> {
        Ok(listing!(sdk, query.limit))
    }

    fn get_message(&self, _: u64) -> Result<sdk::Detail, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_attachment(&self, _: u64, _: u32) -> Result<Option<sdk::AttachmentContent>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn create_attachment_link(
        &self,
        _: u64,
        _: u32,
    ) -> Result<Option<sdk::AttachmentLink>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn search_messages(&self, _: &sdk::Search) -> Result<sdk::SearchResult, sdk::SearchError> {
        Err(sdk::SearchError::Failed(sdk::Error::Internal))
    }

    fn list_threads(
        &self,
        _: Option<&str>,
        _: sdk::Page,
    ) -> Result<sdk::ThreadList, sdk::ThreadsError> {
        Err(sdk::ThreadsError::IndexNotReady)
    }

    fn get_thread(&self, _: &str, _: sdk::Page) -> Result<sdk::ThreadMessages, sdk::ThreadsError> {
        Err(sdk::ThreadsError::IndexNotReady)
    }

    fn list_changes(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: u32,
    ) -> Result<sdk::ChangeList, sdk::ChangesError> {
        Err(sdk::ChangesError::CursorExpired)
    }

    fn stream_events(
        &self,
        _: Option<&str>,
        _: &sdk::EventFilter,
    ) -> Result<sdk::Events, sdk::StreamError> {
        Err(sdk::StreamError::TooManyStreams)
    }

    fn wait_for_changes(
        &self,
        _: &str,
        _: Option<&str>,
        _: u32,
        _: u32,
    ) -> Result<sdk::Events, sdk::StreamError> {
        Err(sdk::StreamError::TooManyStreams)
    }

    fn set_flags(
        &self,
        _: &[u64],
        _: &[String],
        _: sdk::FlagAction,
        _: Option<&str>,
    ) -> Result<Vec<u64>, sdk::ConditionalError> {
        Err(sdk::ConditionalError::VersionMismatch)
    }

    fn move_messages(
        &self,
        _: &[u64],
        _: &str,
        _: Option<&str>,
    ) -> Result<Vec<u64>, sdk::ConditionalError> {
        Err(sdk::ConditionalError::VersionMismatch)
    }

    fn delete_messages(
        &self,
        _: &[u64],
        _: Option<&str>,
    ) -> Result<Vec<u64>, sdk::ConditionalError> {
        Err(sdk::ConditionalError::VersionMismatch)
    }

    fn get_version(&self, _: u64) -> Result<sdk::MessageVersion, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn trash_messages(
        &self,
        _: &[u64],
        _: Option<&str>,
    ) -> Result<Vec<u64>, sdk::ConditionalError> {
        Err(sdk::ConditionalError::VersionMismatch)
    }

    fn restore_messages(&self, _: &[u64]) -> Result<Vec<u64>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn copy_messages(&self, _: &[u64], _: &str) -> Result<Vec<sdk::CopiedMessage>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn create_folder(&self, _: &str) -> Result<sdk::Folder, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn rename_folder(&self, _: &str, _: &str) -> Result<sdk::Folder, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn delete_folder(&self, _: &str, _: sdk::MessageDisposal) -> Result<(), sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_quota(&self) -> Result<sdk::Quota, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_raw_message(&self, _: u64) -> Result<sdk::RawMessage, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_header(&self, _: u64, _: Option<&[String]>) -> Result<sdk::MessageHeader, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_summaries(&self, _: &[u64]) -> Result<Vec<sdk::Hit>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_messages_with_blobs(&self, _: &[u64]) -> Result<Vec<sdk::DetailWithBlobs>, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn import_message(
        &self,
        _: sdk::Import,
        _: Option<&str>,
    ) -> Result<sdk::ImportedMessage, sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn snooze_message(&self, _: u64, _: sdk::Timestamp) -> Result<(), sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn unsnooze_message(&self, _: u64) -> Result<(), sdk::Error> {
        Err(sdk::Error::Internal)
    }

    fn get_snooze(&self, _: u64) -> Result<Option<sdk::Timestamp>, sdk::Error> {
        Err(sdk::Error::Internal)
    }
}

impl sdk::Deliveries for Memory {
    fn get_delivery(&self, _: &str) -> Result<sdk::Delivery, sdk::Error> {
        Err(sdk::Error::Internal)
    }
}

impl sdk::Compose for Memory {
    fn compose(&self, _: &str, _: u64, _: Option<&str>) -> Result<sdk::Draft, sdk::Error> {
        Err(sdk::Error::Internal)
    }
}

impl sdk::Caller for Memory {
    fn current(&self) -> sdk::Identity {
        sdk::Identity {
            kind: "session".into(),
            address: "ada@bench.test".into(),
            admin: false,
            scopes: Vec::new(),
        }
    }
}

/// The data of a sandbox's store.
struct State {
    memory: Memory,
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl State {
    fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    let memory = State::memory;
    host::types::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::blobs::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::streams::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::caller::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::mailbox::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::outbox::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::compose::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::drafts::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::filters::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    host::deliveries::add_to_linker::<_, HasSelf<Memory>>(&mut linker, memory)?;
    Ok(linker)
}

impl host::types::Host for Memory {
    fn convert_error(&mut self, error: HostError<Error>) -> wasmtime::Result<Error> {
        error.into_guest()
    }
}

impl host::blobs::Host for Memory {
    async fn create(&mut self, _: Vec<u8>) -> Result<Resource<Blob>, HostError<Error>> {
        Err(HostError::trap(wasmtime::Error::msg(
            "blobs are not supported",
        )))
    }

    async fn decode(
        &mut self,
        _: Resource<Blob>,
        _: String,
    ) -> Result<Resource<Blob>, HostError<Error>> {
        Err(HostError::trap(wasmtime::Error::msg(
            "blobs are not supported",
        )))
    }

    async fn insert_json_string(
        &mut self,
        _: u32,
        _: Resource<Blob>,
    ) -> Result<(), HostError<Error>> {
        Err(HostError::trap(wasmtime::Error::msg(
            "blobs are not supported",
        )))
    }
}

impl host::blobs::HostBlob for Memory {
    async fn size(&mut self, _: Resource<Blob>) -> wasmtime::Result<u64> {
        Err(wasmtime::Error::msg("blobs are not supported"))
    }

    async fn read(
        &mut self,
        _: Resource<Blob>,
        _: u64,
        _: u32,
    ) -> Result<Vec<u8>, HostError<Error>> {
        Err(HostError::trap(wasmtime::Error::msg(
            "blobs are not supported",
        )))
    }

    async fn slice(
        &mut self,
        _: Resource<Blob>,
        _: u64,
        _: u64,
    ) -> wasmtime::Result<Resource<Blob>> {
        Err(wasmtime::Error::msg("blobs are not supported"))
    }

    async fn drop(&mut self, _: Resource<Blob>) -> wasmtime::Result<()> {
        Err(wasmtime::Error::msg("blobs are not supported"))
    }
}

impl host::streams::Host for Memory {}

impl host::streams::HostEventStream for Memory {
    async fn drop(&mut self, _: Resource<EventStream>) -> wasmtime::Result<()> {
        Err(wasmtime::Error::msg("streams are not supported"))
    }
}

impl host::caller::Host for Memory {
    async fn allows(&mut self, _action: String) -> wasmtime::Result<bool> {
        Ok(true)
    }

    async fn is_handler(&mut self) -> wasmtime::Result<bool> {
        Ok(false)
    }

    async fn present_code(&mut self, _code: String) -> wasmtime::Result<()> {
        Ok(())
    }

    async fn current(&mut self) -> wasmtime::Result<host::caller::Identity> {
        Ok(host::caller::Identity {
            kind: "session".into(),
            address: "ada@bench.test".into(),
            admin: false,
            scopes: Vec::new(),
        })
    }
}

impl host::compose::Host for Memory {
    async fn compose(
        &mut self,
        _: String,
        _: u64,
        _: Option<String>,
    ) -> Result<host::outbox::Draft, HostError<Error>> {
        Err(Error::Internal.into())
    }
}

impl host::deliveries::Host for Memory {
    async fn get(&mut self, _: String) -> Result<host::deliveries::Delivery, HostError<Error>> {
        Err(Error::Internal.into())
    }
}
