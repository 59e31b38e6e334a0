//! Captures the service's log for a test.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The lines since [`Log::capture`].
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures the log of the whole process from now on, one line per event with the request's id.
    /// Each test runs in its own process and can call this function once.
    pub fn capture() -> Self {
        Self::capture_at("info")
    }

    /// Captures the log from this level on. The IMAP client of the tests is excluded, because it
    /// logs its password.
    pub fn capture_at(level: &str) -> Self {
        let log = Self::default();
        // The service excludes these crates too.
        let quiet =
            "cranelift=warn,mio=warn,regalloc2=warn,rustls=warn,wasmtime=warn,async_imap=warn";
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(format!("{level},{quiet}")))
            .with_ansi(false)
            .with_writer(log.clone())
            .init();
        log
    }

    /// Returns the lines that contain `mention`.
    pub fn lines_with(&self, mention: &str) -> Vec<String> {
        let log = self.0.lock().unwrap();
        String::from_utf8_lossy(&log)
            .lines()
            .filter(|line| line.contains(mention))
            .map(ToOwned::to_owned)
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
