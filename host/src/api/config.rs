//! `config`: the module's own settings, as the operator wrote them. Of the service's it has what the agents' module is handed at the start
//! (`Config::tell_agents_module`), and nothing else.

use latchmail_bindings::latchmail::host::config::Host;

use super::Call;

/// Asked for this, the host panics, where it is built for tests: no capability has another way to, and what then becomes of the service has to be
/// seen.
#[cfg(feature = "testing")]
const PANIC: &str = "latchmail-test-panic";

impl Host for Call {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        #[cfg(feature = "testing")]
        assert_ne!(key, PANIC, "a capability panicked");
        Ok(self.settings.config.get(&key).cloned())
    }

    async fn all(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self
            .settings
            .config
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
