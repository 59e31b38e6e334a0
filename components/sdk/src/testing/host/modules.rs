//! The modules of the fake host that can act for an account without a request.

use super::{FakeHost, Need};
use crate::capability::{Error, OwnerModule, OwnerModules};

/// Adds a module that can act for the signed-in account. An account initially has no such module.
#[track_caller]
pub fn put_module(host: &FakeHost, module: OwnerModule) {
    host.with_account(|account| {
        account.modules.retain(|known| known.name != module.name);
        account.modules.push(module);
        let modules = &mut account.modules;
        modules.sort_by(|one, other| one.name.cmp(&other.name));
    });
}

impl OwnerModules for FakeHost {
    fn list_owner_modules(&self) -> Result<Vec<OwnerModule>, Error> {
        self.allow(Need::Session, |account| Ok(account.modules.clone()))
    }

    fn set_module_enabled(&self, name: &str, enabled: bool) -> Result<OwnerModule, Error> {
        self.allow(Need::Session, |account| {
            let mut modules = account.modules.iter_mut();
            let module = modules.find(|module| module.name == name);
            let module = module.ok_or(Error::NotFound)?;
            module.enabled = enabled;
            if !enabled {
                module.paused = None;
            }
            Ok(module.clone())
        })
    }
}
