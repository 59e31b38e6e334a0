//! The vacation response and the rules of the fake host. The fake host checks the values, but does
//! not apply the rules to delivered messages.

use latchmail_shape::filters::{Action, Condition, Rule, Vacation, check_rules, check_vacation};
use latchmail_shape::{codes, filters};

use super::{FakeHost, Need, forward_addresses};
use crate::capability::{self, Error, FilterError, FilterState, Filters, ForwardAddress, Scope};

/// The text of [`FilterError::Unsupported`].
const UNSUPPORTED: &str = "This mail server does not support vacation responses and rules";

/// The vacation response and the rules of an account.
#[derive(Debug, Default)]
pub(super) struct StoredFilters {
    vacation: Vacation,
    rules: Vec<Rule>,
    active: bool,
    /// The number of changes.
    changes: u32,
    is_unsupported: bool,
    forward: forward_addresses::Stored,
}

impl StoredFilters {
    fn state(&self) -> FilterState {
        let vacation = self.vacation.clone();
        FilterState {
            vacation: capability::Vacation {
                enabled: vacation.enabled,
                from_date: vacation.from,
                to_date: vacation.until,
                subject: vacation.subject,
                text: vacation.text,
                html: vacation.html,
            },
            rules: self.rules.iter().cloned().map(from_shape).collect(),
            active: self.active,
            version: format!("v{}", self.changes),
        }
    }

    /// Disables the rules that forward mail to an address.
    fn disable_forwards(&mut self, address: &str) {
        for rule in &mut self.rules {
            let mut actions = rule.actions.iter();
            if rule.enabled
                && actions.any(|one| one.kind == "forward" && one.value.as_deref() == Some(address))
            {
                rule.enabled = false;
                self.changes += 1;
            }
        }
    }

    fn change(&mut self, if_version: Option<&str>) -> Result<(), FilterError> {
        if if_version.is_some_and(|version| version != self.state().version) {
            return Err(FilterError::VersionMismatch);
        }
        self.active = true;
        self.changes += 1;
        Ok(())
    }
}

/// Makes the mail server of the signed-in account a server without scripts.
#[track_caller]
pub fn forget_filters(host: &FakeHost) {
    host.with_account(|account| account.filters.is_unsupported = true);
}

/// Activates the script of another mail client in the mailbox of the signed-in account.
#[track_caller]
pub fn activate_other_script(host: &FakeHost) {
    host.with_account(|account| {
        account.filters.active = false;
        account.filters.changes += 1;
    });
}

fn check_access(host: &FakeHost, scope: Scope) -> Result<(), FilterError> {
    host.authorize(Need::Scope(scope))?;
    if host.with_account(|account| account.filters.is_unsupported) {
        return Err(FilterError::Unsupported(UNSUPPORTED.into()));
    }
    Ok(())
}

/// Returns `true` if the address belongs to an account or is an enabled alias.
fn is_deliverable(host: &FakeHost, address: &str) -> bool {
    let accounts = host.accounts.borrow();
    accounts.values().any(|account| {
        let mut aliases = account.aliases.iter();
        account.address == address || aliases.any(|alias| alias.active && alias.address == address)
    })
}

/// Returns `true` if rules of the signed-in account can forward mail to an address.
fn can_forward(host: &FakeHost, address: &str) -> bool {
    is_deliverable(host, address)
        || host.with_account(|account| account.filters.forward.is_confirmed(address))
}

/// Checks the folders and the addresses of rules.
fn resolve(host: &FakeHost, rules: &mut [Rule]) -> Result<(), Error> {
    for (index, rule) in rules.iter_mut().enumerate() {
        for (position, action) in rule.actions.iter_mut().enumerate() {
            let value = action.value.clone().unwrap_or_default();
            match action.kind.as_str() {
                "move" | "copy" if !host.with_account(|account| account.mail.has(&value)) => {
                    let text = format!(
                        "rules[{index}].actions[{position}].folder is not an existing folder"
                    );
                    return Err(Error::invalid(codes::INVALID_RULES, text));
                }
                "forward" if rule.enabled && !can_forward(host, &value.to_lowercase()) => {
                    let text = format!(
                        "Mail can only be forwarded to an address of this service or to a confirmed address, and {value} is neither"
                    );
                    return Err(Error::invalid(codes::FORWARD_ADDRESS_NOT_ALLOWED, text));
                }
                "forward" => action.value = Some(value.to_lowercase()),
                _ => {}
            }
        }
    }
    Ok(())
}

impl Filters for FakeHost {
    fn get_filters(&self) -> Result<FilterState, FilterError> {
        check_access(self, Scope::MailRead)?;
        Ok(self.with_account(|account| account.filters.state()))
    }

    fn set_vacation(
        &self,
        vacation: &capability::Vacation,
        if_version: Option<&str>,
    ) -> Result<FilterState, FilterError> {
        check_access(self, Scope::MailWrite)?;
        let vacation = vacation.clone();
        let vacation = Vacation {
            enabled: vacation.enabled,
            from: vacation.from_date,
            until: vacation.to_date,
            subject: vacation.subject,
            text: vacation.text,
            html: vacation.html,
        };
        check_vacation(&vacation).map_err(invalid)?;
        self.with_account(|account| {
            account.filters.change(if_version)?;
            account.filters.vacation = vacation;
            Ok(account.filters.state())
        })
    }

    fn set_rules(
        &self,
        rules: &[capability::Rule],
        if_version: Option<&str>,
    ) -> Result<FilterState, FilterError> {
        check_access(self, Scope::MailWrite)?;
        let mut rules: Vec<Rule> = rules.iter().cloned().map(to_shape).collect();
        let mut actions = rules.iter().flat_map(|rule| &rule.actions);
        if actions.any(|action| action.kind == "forward") {
            self.authorize(Need::Scope(Scope::MailRead))?;
            self.authorize(Need::Scope(Scope::MailSend))?;
        }
        check_rules(&rules).map_err(invalid)?;
        resolve(self, &mut rules)?;
        self.with_account(|account| {
            account.filters.change(if_version)?;
            account.filters.rules = rules;
            Ok(account.filters.state())
        })
    }

    fn list_forward_addresses(&self) -> Result<Vec<ForwardAddress>, Error> {
        let now = self.now();
        self.allow(Need::Scope(Scope::MailRead), |account| {
            Ok(account.filters.forward.list(now).to_vec())
        })
    }

    fn request_forward_address(&self, address: &str) -> Result<ForwardAddress, Error> {
        let (now, id) = (self.now(), self.next_number("forward"));
        self.allow(Need::Session, |account| {
            let forward = &mut account.filters.forward;
            forward.request(format!("forward{id}"), address, now)
        })
    }

    fn confirm_forward_address(&self, id: &str, code: &str) -> Result<ForwardAddress, Error> {
        let now = self.now();
        self.allow(Need::Session, |account| {
            account.filters.forward.confirm(id, code, now)
        })
    }

    fn delete_forward_address(&self, id: &str) -> Result<(), Error> {
        self.allow(Need::Session, |account| {
            let deleted = account.filters.forward.delete(id)?;
            account.filters.disable_forwards(&deleted.address);
            Ok(())
        })
    }
}

fn invalid(invalid: filters::Invalid) -> Error {
    Error::invalid(invalid.code, invalid.text)
}

fn to_shape(rule: capability::Rule) -> Rule {
    let conditions = rule.conditions.into_iter().map(|one| Condition {
        field: one.field,
        header: one.header,
        operator: one.operator,
        value: one.value,
    });
    let actions = rule.actions.into_iter().map(|one| Action {
        kind: one.kind,
        value: one.value,
    });
    Rule {
        name: rule.name,
        enabled: rule.enabled,
        combination: rule.combination,
        conditions: conditions.collect(),
        actions: actions.collect(),
    }
}

fn from_shape(rule: Rule) -> capability::Rule {
    let conditions = rule
        .conditions
        .into_iter()
        .map(|one| capability::RuleCondition {
            field: one.field,
            header: one.header,
            operator: one.operator,
            value: one.value,
        });
    let actions = rule.actions.into_iter().map(|one| capability::RuleAction {
        kind: one.kind,
        value: one.value,
    });
    capability::Rule {
        name: rule.name,
        enabled: rule.enabled,
        combination: rule.combination,
        conditions: conditions.collect(),
        actions: actions.collect(),
    }
}
