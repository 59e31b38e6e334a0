//! Checks that the engine and the host support the policy of a module.

use latchmail_core::caller::Scope;
use latchmail_core::config;

use super::engine::MAX_MEMORY_MIB;
use super::linker::GRANTABLE;
use super::sandbox::Budget;
use crate::api::Settings;

/// The maximum size of a response body that a policy can allow, in MiB. In addition to the copy in
/// the sandbox, the host needs memory for the whole body.
const MAX_RESPONSE_MIB: u32 = 64;

/// The maximum number of sandboxes of a module that a policy can allow.
const MAX_CONCURRENCY: u32 = 1000;

/// Checks that the host supports a policy. The error is a phrase that follows the name of the
/// module or of the configuration section.
pub(super) fn check(policy: &config::Module) -> Result<(), String> {
    let is_known = |grant: &&String| GRANTABLE.contains(&grant.as_str());
    if let Some(unknown) = policy.grants.iter().find(|grant| !is_known(grant)) {
        return Err(format!(
            "its grants contain the unknown interface `{unknown}`; the known ones are {}",
            GRANTABLE.join(", ")
        ));
    }
    if let Some(unknown) = policy
        .scopes
        .iter()
        .find(|name| Scope::named(name).is_none())
    {
        return Err(format!(
            "its scopes contain the unknown scope `{unknown}`; the known ones are {}",
            Scope::ALL.map(Scope::name).join(", ")
        ));
    }
    if !(1..=MAX_MEMORY_MIB).contains(&policy.memory) {
        return Err(format!(
            "its memory is {} MiB; the allowed range is 1 to {MAX_MEMORY_MIB}",
            policy.memory
        ));
    }
    if !(1..=MAX_CONCURRENCY).contains(&policy.concurrency) {
        return Err(format!(
            "its concurrency is {}; the allowed range is 1 to {MAX_CONCURRENCY}",
            policy.concurrency
        ));
    }
    if !(1..=MAX_RESPONSE_MIB).contains(&policy.response) {
        return Err(format!(
            "its response is {} MiB; the allowed range is 1 to {MAX_RESPONSE_MIB}",
            policy.response
        ));
    }
    Settings::of(policy)?;
    Ok(())
}

/// Returns the limits of the sandboxes of a module.
pub(super) fn budget(policy: &config::Module) -> Budget {
    Budget {
        memory: policy.memory as usize * 1024 * 1024,
        cpu: policy.cpu,
        host_calls: policy.host_calls,
        response: policy.response as usize * 1024 * 1024,
        active_content: policy.active_content,
        pauses: false,
    }
}

/// Checks the section `[handlers]` of the configuration. The error is a phrase that follows the
/// name of the section.
pub(super) fn check_handlers(handlers: &config::Handlers) -> Result<(), String> {
    for (key, value) in [
        ("concurrency", handlers.concurrency),
        ("concurrency_per_module", handlers.concurrency_per_module),
    ] {
        if !(1..=MAX_CONCURRENCY).contains(&value) {
            return Err(format!(
                "its {key} is {value}; the allowed range is 1 to {MAX_CONCURRENCY}"
            ));
        }
    }
    Ok(())
}
