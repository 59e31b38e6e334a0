//! Decides whether a value grows steadily.
//!
//! The medians of two quarters of the samples are compared: the second quarter, when caches and
//! pools are filled, and the last quarter. Single high samples do not change a median.

use crate::measure::median;

/// The share of growth that is accepted.
const SHARE: f64 = 0.1;

/// The development of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// The median of the second quarter of the samples.
    pub(super) before: f64,
    /// The median of the last quarter of the samples.
    pub(super) after: f64,
}

impl Growth {
    /// Evaluates the samples, in the order of their times.
    pub(super) fn of(samples: &[f64]) -> Self {
        let quarter = samples.len() / 4;
        Self {
            before: median(&samples[quarter..samples.len() / 2]),
            after: median(&samples[samples.len() - quarter..]),
        }
    }

    /// Returns whether the value grew by more than 10 % and `allowance`.
    pub(super) fn is_steady(self, allowance: f64) -> bool {
        self.after > self.before * (1.0 + SHARE) + allowance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the samples of an hour, one per ten seconds.
    fn hour(value: impl Fn(f64) -> f64) -> Vec<f64> {
        (0..360_u16)
            .map(|number| value(f64::from(number) / 360.0))
            .collect()
    }

    #[test]
    fn a_steady_increase_is_growth() {
        assert!(Growth::of(&hour(|at| 100.0 + 60.0 * at)).is_steady(8.0));
    }

    #[test]
    fn the_start_and_a_constant_value_are_no_growth() {
        let filled_caches = hour(|at| if at < 0.2 { 10.0 + 450.0 * at } else { 100.0 });
        assert!(!Growth::of(&filled_caches).is_steady(8.0));
        assert!(!Growth::of(&hour(|_| 100.0)).is_steady(0.0));
    }

    #[test]
    fn short_peaks_are_no_growth() {
        let peaks = hour(|at| if at > 0.9 && at < 0.97 { 500.0 } else { 100.0 });
        assert!(!Growth::of(&peaks).is_steady(8.0));
    }

    #[test]
    fn an_increase_within_the_allowance_is_no_growth() {
        let growth = Growth {
            before: 100.0,
            after: 117.0,
        };
        assert!(!growth.is_steady(8.0));
        assert!(growth.is_steady(6.0));
    }

    #[test]
    fn too_few_samples_are_no_growth() {
        assert!(!Growth::of(&[]).is_steady(0.0));
        assert!(!Growth::of(&[1.0, 2.0, 3.0]).is_steady(0.0));
    }
}
