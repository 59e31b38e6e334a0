//! What all `/set` methods share (RFC 8620, section 5.3).

use serde_json::{Value, json};

use crate::Capabilities;
use crate::args::{Args, Object};
use crate::context::Context;
use crate::error::{MethodError, SetError};
use crate::limits::MAX_SET;

/// The requested changes of a `/set`.
pub(crate) struct Requested<'a> {
    pub(crate) create: Vec<(&'a str, &'a Object)>,
    /// The ids and patches, with the creation ids of this request resolved.
    pub(crate) update: Vec<(String, &'a Object)>,
    pub(crate) destroy: Vec<String>,
}

impl<'a> Requested<'a> {
    /// Reads the arguments.
    pub(crate) fn read<H: Capabilities>(
        ctx: &Context<'_, H>,
        args: &Args<'a>,
    ) -> Result<Self, MethodError> {
        let create = entries(args, "create")?;
        let update = entries(args, "update")?;
        let destroy = args.texts("destroy")?.unwrap_or_default();
        if create.len() + update.len() + destroy.len() > MAX_SET {
            return Err(MethodError::new("requestTooLarge"));
        }
        let update = update.into_iter();
        Ok(Self {
            create,
            update: update
                .map(|(id, patch)| (ctx.resolve(id).to_owned(), patch))
                .collect(),
            destroy: destroy
                .into_iter()
                .map(|id| ctx.resolve(id).to_owned())
                .collect(),
        })
    }
}

fn entries<'a>(args: &Args<'a>, name: &str) -> Result<Vec<(&'a str, &'a Object)>, MethodError> {
    let objects = args.object(name)?.into_iter().flatten();
    let entries = objects.map(|(id, object)| Some((id.as_str(), object.as_object()?)));
    let entries: Option<Vec<_>> = entries.collect();
    entries.ok_or_else(|| MethodError::invalid(format!("{name} must contain objects")))
}

/// The results of a `/set`.
#[derive(Debug, Default)]
pub(crate) struct Results {
    created: Object,
    not_created: Object,
    updated: Object,
    not_updated: Object,
    destroyed: Vec<String>,
    not_destroyed: Object,
    /// The error that ends the request, for example a refused credential.
    fatal: Option<MethodError>,
}

impl Results {
    /// Records the result of a creation. On success, the creation id stands for the id.
    pub(crate) fn created<H>(
        &mut self,
        ctx: &mut Context<'_, H>,
        creation_id: &str,
        result: Result<Value, SetError>,
    ) {
        match result {
            Ok(object) => {
                let id = object["id"].as_str().unwrap_or_default().to_owned();
                ctx.created.insert(creation_id.into(), id);
                self.created.insert(creation_id.into(), object);
            }
            Err(error) => {
                self.note(&error);
                self.not_created.insert(creation_id.into(), error.to_json());
            }
        }
    }

    /// Records the result of an update, with the properties that the server has set.
    pub(crate) fn updated(&mut self, id: &str, result: Result<Option<Value>, SetError>) {
        match result {
            Ok(changed) => {
                self.updated.insert(id.into(), changed.unwrap_or_default());
            }
            Err(error) => {
                self.note(&error);
                self.not_updated.insert(id.into(), error.to_json());
            }
        }
    }

    pub(crate) fn destroyed(&mut self, id: &str, result: Result<(), SetError>) {
        match result {
            Ok(()) => self.destroyed.push(id.into()),
            Err(error) => {
                self.note(&error);
                self.not_destroyed.insert(id.into(), error.to_json());
            }
        }
    }

    fn note(&mut self, error: &SetError) {
        if self.fatal.is_none() {
            self.fatal = error.fatal();
        }
    }

    /// Returns the response.
    pub(crate) fn response(
        self,
        account: &str,
        old: &str,
        new: &str,
    ) -> Result<Value, MethodError> {
        if let Some(error) = self.fatal {
            return Err(error);
        }
        let or_null = |object: Object| (!object.is_empty()).then_some(object);
        let destroyed = (!self.destroyed.is_empty()).then_some(self.destroyed);
        Ok(json!({
            "accountId": account,
            "oldState": old,
            "newState": new,
            "created": or_null(self.created),
            "updated": or_null(self.updated),
            "destroyed": destroyed,
            "notCreated": or_null(self.not_created),
            "notUpdated": or_null(self.not_updated),
            "notDestroyed": or_null(self.not_destroyed),
        }))
    }
}

/// A change in a patch (RFC 8620, section 5.3): the property, the member of the property if the
/// patch changes only one, and the new value.
pub(crate) struct Patched<'a> {
    pub(crate) property: &'a str,
    pub(crate) member: Option<String>,
    pub(crate) value: &'a Value,
}

/// Returns the changes of a patch.
///
/// # Errors
/// Returns `invalidPatch` if the patch changes a property and one of its members, or has a deeper
/// path.
pub(crate) fn patch(patch: &Object) -> Result<Vec<Patched<'_>>, SetError> {
    let mut changes = Vec::with_capacity(patch.len());
    for (path, value) in patch {
        let (property, member) = match path.split_once('/') {
            None => (path.as_str(), None),
            Some((property, member)) if !member.contains('/') => {
                if patch.contains_key(property) {
                    let text = format!("{property} and {path} are both changed");
                    return Err(SetError::with("invalidPatch", text));
                }
                let member = member.replace("~1", "/").replace("~0", "~");
                (property, Some(member))
            }
            Some(_) => {
                let text = format!("{path} does not exist");
                return Err(SetError::with("invalidPatch", text));
            }
        };
        changes.push(Patched {
            property,
            member,
            value,
        });
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_properties_or_their_members() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let one = object(json!({ "keywords/$seen": true, "a~1b": 1, "c/d~1e": null }));
        let changes = patch(&one).unwrap();
        let found: Vec<_> = changes
            .iter()
            .map(|one| (one.property, one.member.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                ("a~1b", None),
                ("c", Some("d/e")),
                ("keywords", Some("$seen"))
            ]
        );
        for wrong in [
            json!({ "keywords": {}, "keywords/$seen": true }),
            json!({ "a/b/c": 1 }),
        ] {
            let refused = patch(&object(wrong)).err().unwrap();
            assert_eq!(refused.kind(), "invalidPatch");
        }
    }
}
