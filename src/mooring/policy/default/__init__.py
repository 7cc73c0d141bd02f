"""Profile `default`: our own rules.

hall        everybody who waits, in the lines of a queue, and where each would stand
passing     who may be passed by those who came later, and how often
waking      which lines that sleep a change could help
starts      a workload that starts, with all of its minimum or as much as will do
growth      a workload that runs and gets one more unit
displacing  others who leave for it
moving      others who are moved for it
court       the lines served by standing, and why the rest waits
"""
