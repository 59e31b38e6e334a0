//! The service's log, kept for a test to read.

use std::io;
use std::sync::{Arc, Mutex};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// What was logged since [`Log::keep`].
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what the whole process logs from now on: one line an event, the request's id in it. Once in a process, so once in a test.
    pub fn keep() -> Self {
        Self::keep_at("info")
    }

    /// The same down to a level. The tests' own IMAP client, which says its password aloud, is not heard.
    pub fn keep_at(level: &str) -> Self {
        let log = Self::default();
        // As the service keeps them quiet itself.
        let quiet =
            "cranelift=warn,mio=warn,regalloc2=warn,rustls=warn,wasmtime=warn,async_imap=warn";
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(format!("{level},{quiet}")))
            .with_ansi(false)
            .with_writer(log.clone())
            .init();
        log
    }

    /// The lines that mention something.
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
