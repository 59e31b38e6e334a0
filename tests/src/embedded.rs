//! Services whose modules are those in the program.

use latchmail_core::config::EmbeddedModule;

use crate::Setup;

impl Setup {
    /// Uses these modules as those in the program. The default configuration then has no sections
    /// of modules.
    #[must_use]
    pub fn with_embedded(mut self, modules: &[EmbeddedModule]) -> Self {
        self.embedded = Some(modules.to_vec());
        self
    }
}

/// Removes the sections of modules from the settings, except for those in `own`, if the modules are
/// those in the program. Also returns these modules.
pub(crate) fn applied(
    embedded: Option<Vec<EmbeddedModule>>,
    settings: String,
    own: &str,
) -> (String, Vec<EmbeddedModule>) {
    let Some(embedded) = embedded else {
        return (settings, Vec::new());
    };
    let is_default = |line: &&str| line.starts_with("modules.") && !own.contains(*line);
    let kept = settings.lines().filter(|line| !is_default(line));
    (kept.collect::<Vec<_>>().join("\n"), embedded)
}
