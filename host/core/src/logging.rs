//! Writes the log to standard error, as readable lines or as JSON. The setting `log.filter` selects
//! the lines.
//!
//! Each log line for a request belongs to the request's span, which contains the request's id and
//! its trace id. In the JSON form, the object `span` contains the fields of the span. Types with
//! secrets omit the secrets in `Debug`, so secrets are not logged.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use crate::config::{Log, LogFormat};
use crate::error::StartError;

/// Libraries that write too many log lines or confidential data. Cranelift writes hundreds of
/// megabytes for one module. rustls logs complete handshakes, and h2 logs the headers of requests.
/// Each entry matches all log targets that start with the entry.
const QUIET: [&str; 6] = ["cranelift", "h2", "mio", "regalloc2", "rustls", "wasmtime"];

/// The target of the span of a request. No log line has this target. Every filter enables this
/// target, so that each line for a request has the fields of the span.
pub const REQUEST_SPAN: &str = "latchmail_request_span";

/// The filter of the log, which can be replaced while the process runs.
#[derive(Clone, Debug)]
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Replaces the filter.
    ///
    /// # Errors
    /// Returns an error if the filter is invalid. In this case, the filter does not change.
    pub fn replace(&self, config: &Log) -> Result<(), StartError> {
        let filter = filter(&config.filter)?;
        self.0
            .reload(filter)
            .map_err(|e| StartError::new(format!("the filter of the log cannot be replaced: {e}")))
    }
}

/// Sets up the log of the process. The function must be called only once.
///
/// # Errors
/// Returns an error if the filter is invalid or the log is already set up.
pub fn start(config: &Log) -> Result<LogFilter, StartError> {
    let (filter, handle) = reload::Layer::new(filter(&config.filter)?);
    let lines = fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let lines = match config.format {
        LogFormat::Human => lines.boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .try_init()
        .map_err(|e| StartError::new(format!("the log cannot be set up: {e}")))?;
    Ok(LogFilter(handle))
}

/// Checks the filter.
///
/// # Errors
/// Returns an error if the filter is invalid.
pub fn check(config: &Log) -> Result<(), StartError> {
    filter(&config.filter).map(drop)
}

/// Returns the configured filter. Limits the [`QUIET`] libraries to `warn` if the global level is
/// more verbose than `warn`. A directive for such a library, or for a part of such a library,
/// overrides this limit.
///
/// If several directives match a log line, the directive with the longest target applies. If
/// several directives have the same target, the last directive applies.
fn filter(text: &str) -> Result<EnvFilter, StartError> {
    let parse = |directives: &str| {
        EnvFilter::builder().parse(directives).map_err(|e| {
            StartError::new(format!(
                "`log.filter` is `{text}`, which is not a valid filter: {e}"
            ))
        })
    };
    let with_span = format!("{REQUEST_SPAN}=error,{text}");
    let filter = parse(&with_span)?;
    let for_everything = text
        .split(',')
        .filter_map(|directive| directive.trim().parse::<LevelFilter>().ok())
        .next_back();
    if for_everything.is_none_or(|level| level <= LevelFilter::WARN) {
        return Ok(filter);
    }
    let quiet = QUIET.map(|name| format!("{name}=warn"));
    parse(&format!("{},{with_span}", quiet.join(",")))
}

/// Captures the log in tests of other modules.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    /// Returns the log lines that this thread writes while `work` runs.
    ///
    /// # Panics
    /// Panics if the log is not UTF-8.
    #[allow(clippy::unwrap_used, reason = "only tests call this")]
    pub async fn logged(work: impl Future<Output = ()>) -> String {
        #[derive(Clone, Default)]
        struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
        impl std::io::Write for Lines {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(move || writer.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        work.await;
        drop(guard);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Level, enabled, subscriber};
    use tracing_subscriber::registry;

    use super::*;

    fn with<T>(text: &str, look: impl FnOnce() -> T) -> T {
        subscriber::with_default(registry().with(filter(text).unwrap()), look)
    }

    #[test]
    fn a_level_for_everything_is_not_for_what_would_bury_it() {
        with("trace", || {
            assert!(enabled!(target: "latchmail_http", Level::TRACE));
            assert!(!enabled!(target: "cranelift_codegen::context", Level::INFO));
            assert!(!enabled!(target: "wasmtime_internal_cranelift::compiler", Level::DEBUG));
            assert!(!enabled!(target: "rustls::client::hs", Level::TRACE));
            assert!(enabled!(target: "wasmtime", Level::WARN));
        });
        with("latchmail=trace,debug", || {
            assert!(!enabled!(target: "regalloc2::ion", Level::DEBUG));
        });
    }

    #[test]
    fn what_is_named_is_heard() {
        with("trace,cranelift_codegen=debug,rustls=info", || {
            assert!(enabled!(target: "cranelift_codegen::context", Level::DEBUG));
            assert!(!enabled!(target: "cranelift_frontend", Level::INFO));
            assert!(enabled!(target: "rustls::client::hs", Level::INFO));
        });
    }

    #[test]
    fn a_quiet_log_does_not_grow_by_it() {
        for text in ["error", "off", "latchmail=debug"] {
            with(text, || {
                assert!(!enabled!(target: "wasmtime", Level::WARN), "{text}");
            });
        }
    }

    #[test]
    fn each_filter_enables_the_span_of_a_request() {
        for text in [
            "",
            "info",
            "off",
            "latchmail_mailbox=debug",
            "latchmail=off,h2=trace",
        ] {
            with(text, || {
                let span = tracing::error_span!(target: REQUEST_SPAN, "request");
                assert!(!span.is_disabled(), "{text}");
            });
        }
        with("latchmail_mailbox=debug", || {
            assert!(enabled!(target: "latchmail_mailbox", Level::DEBUG));
            assert!(!enabled!(target: "latchmail_http", Level::ERROR));
        });
    }

    #[test]
    fn a_filter_that_is_none_is_named() {
        let config = Log {
            filter: "latchmail=loudly".into(),
            ..Log::default()
        };
        let error = start(&config).unwrap_err().to_string();
        assert!(error.contains("latchmail=loudly"), "{error}");
    }
}
