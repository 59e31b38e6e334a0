//! The parameters of a request (RFC 6749, section 3.1): one without a value is as good as absent, and none may be there twice but those that may.

use super::error::Refusal;

/// Names and values, decoded.
#[derive(Debug)]
pub struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Of a query, or of a form.
    #[must_use]
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// Every value of a parameter that may be there more than once.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of_it = self.0.iter().filter(move |(key, _)| key == name);
        of_it
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// The value of a parameter.
    ///
    /// # Errors
    /// `invalid_request` where it is there more than once: two readers could each mean another.
    pub fn one(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.0.iter().filter(|(key, _)| key == name);
        let value = values.next().map(|(_, value)| value.as_str());
        if values.next().is_some() {
            return Err(Refusal::request(format!("{name} must be given once")));
        }
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// The value of a parameter that has to be there.
    ///
    /// # Errors
    /// `invalid_request` where it is not, or more than once.
    pub fn needed(&self, name: &str) -> Result<&str, Refusal> {
        self.one(name)?
            .ok_or_else(|| Refusal::request(format!("{name} is missing")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(pairs: &[(&str, &str)]) -> Parameters {
        let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        Parameters::new(pairs.collect())
    }

    #[test]
    fn an_empty_parameter_is_as_good_as_absent_and_one_that_is_there_twice_is_refused() {
        let given = parameters(&[
            ("a", "1"),
            ("b", ""),
            ("c", "1"),
            ("c", "1"),
            ("d", ""),
            ("d", ""),
        ]);
        assert_eq!(given.one("a"), Ok(Some("1")));
        assert_eq!(given.one("b"), Ok(None));
        assert_eq!(given.one("x"), Ok(None));
        assert_eq!(given.needed("b").unwrap_err().description, "b is missing");
        assert_eq!(given.one("c").unwrap_err().code, "invalid_request");
        assert!(given.one("d").is_err());
        assert_eq!(given.all("c").count(), 2);
        assert_eq!(given.all("b").count(), 0);
    }
}
