"""Laws, judge, faults: is an implementation right?"""
