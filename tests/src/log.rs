//! Captures the service's log for a test.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The lines since [`Log::keep`].
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Captures the log of the whole process from now on, one line per event with the request's id. It can be called once per process, so once per
    /// test.
    pub fn keep() -> Self {
        Self::keep_at("info")
    }

    /// The same with a level. The tests' own IMAP client is excluded, because it logs its password.
    pub fn keep_at(level: &str) -> Self {
        let log = Self::default();
        // The service excludes these too.
        let quiet =
            "cranelift=warn,mio=warn,regalloc2=warn,rustls=warn,wasmtime=warn,async_imap=warn";
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(format!("{level},{quiet}")))
            .with_ansi(false)
            .with_writer(log.clone())
            .init();
        log
    }

    /// The lines that contain `mention`.
    pub fn about(&self, mention: &str) -> Vec<String> {
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
