//! `config`: the module's own settings, as the operator wrote them. Nothing of the service's.

use latchmail_bindings::latchmail::host::config::Host;

use super::Call;

impl Host for Call {
    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.settings.get(&key).cloned())
    }

    async fn all(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(self
            .settings
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}
