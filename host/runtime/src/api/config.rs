//! The interface `config`, for the module's own settings from the configuration. The module for
//! agents also receives settings of the service (`Config::modules_with_service_settings`). Other
//! modules do not receive settings of the service.

use latchmail_bindings::latchmail::host::config::Host;

use super::call::Call;
use super::host_call::host_call;

/// The settings key for which `get` panics in test builds. A test checks that a panic in a host
/// function does not end the service.
#[cfg(feature = "testing")]
const PANIC: &str = "latchmail-test-panic";

impl Host for Call {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        let _span = host_call("config.get");
        #[cfg(feature = "testing")]
        assert_ne!(key, PANIC, "a capability panicked");
        Ok(self.settings.config.0.get(&key).cloned())
    }

    async fn all(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        let _span = host_call("config.all");
        Ok(self
            .settings
            .config
            .0
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
